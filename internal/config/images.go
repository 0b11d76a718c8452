package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/registry"
)

const multimodalKey = "explorer.rollout_model.enable_multimodal"

// SeesImages reports whether the run shows the model images: of its rows, or of requests to its gateway.
func (s *Settled) SeesImages() bool {
	if s.Explorer.RolloutModel.EnableMultimodal && s.Samples {
		return true
	}
	for _, t := range s.Data.Tasksets { // in mode train, explorers elsewhere read them
		if t.Format.ImageKey != "" {
			return true
		}
	}
	for _, b := range s.Data.Besides() {
		if b.Format.ImageKey != "" {
			return true
		}
	}
	b := s.Buffer.TrainerInput.ExperienceBuffer
	return b != nil && b.Format.ImageKey != ""
}

// showsImages reports whether rows of tasksets or of training data have images.
func showsImages(sets []tasksetPlace, buffer *Buffer) bool {
	for _, p := range sets {
		if p.set.Format.ImageKey != "" {
			return true
		}
	}
	for _, b := range buffer.TrainerInput.AuxiliaryBuffers {
		if b.Format.ImageKey != "" {
			return true
		}
	}
	b := buffer.TrainerInput.ExperienceBuffer
	return b != nil && b.Format.ImageKey != ""
}

// see lets auto, where these are the values of the configuration, stand for engines that read images.
func (e *Engines) see(trainer, sampler string) {
	if names := seeingNames(registry.Trainers.Catalog); trainer == "auto" && len(names) > 0 && !slices.Contains(names, e.Train) {
		e.Train = names[0]
	}
	if names := seeingNames(registry.Samplers.Catalog); sampler == "auto" && len(names) > 0 && !slices.Contains(names, e.Sample) {
		e.Sample = names[0]
	}
}

// seeingNames returns the plug-ins of a kind that read images.
func seeingNames(catalog *registry.Catalog) []string {
	return slices.DeleteFunc(slices.Clone(catalog.Names()), func(name string) bool {
		_, sees := catalog.Default(name).(seeing)
		return !sees
	})
}

// refusedImages says which engine of the mode reads text alone. Without a key all read images.
type refusedImages struct{ key, what, hint string }

// seeing is a trainer or a sampler that reads images.
type seeing interface{ SeesImages() }

// blindEngine returns the first of the engines of a mode that reads text alone.
func blindEngine(opened []openedEngine, trains bool) refusedImages {
	for i, e := range opened {
		catalog, ok := registry.Find(e.kind)
		if !ok || !catalog.Has(e.name) {
			continue
		}
		if _, sees := catalog.Default(e.name).(seeing); sees {
			continue
		}
		key := engineTypeKey
		if trains && i == 0 { // the trainer comes first
			key = trainerTypeKey
		}
		hint := ""
		if others := seeingNames(catalog); len(others) > 0 {
			hint = fmt.Sprintf("set %s to %s, or leave it out", key, strings.Join(others, " or "))
		}
		return refusedImages{key, fmt.Sprintf("images for the %s %s, which reads text alone", e.kind, e.name), hint}
	}
	return refusedImages{}
}
