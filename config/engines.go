package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/registry"
)

const (
	trainerTypeKey = "trainer.trainer_type"
	engineTypeKey  = "explorer.rollout_model.engine_type"
	trainerArgsKey = "trainer.trainer_args"
	engineArgsKey  = "explorer.rollout_model.engine_args"
)

// weights returns the plug-in that brings weights to a sampler in the same process: the one that
// synchronizer.sync_method names. A value of Trinity-RFT stands for the first plug-in that fits:
// one that shares memory if one engine trains and samples.
func (r *resolution) weights() string {
	if name := r.Synchronizer.SyncMethod; !slices.Contains(upstreamSyncMethods, name) {
		return name
	}
	catalog, ok := registry.Find("weights")
	switch {
	case !ok || len(catalog.Auto) == 0:
		return ""
	case r.Engines.Train == r.Engines.Sample:
		return catalog.Auto[0]
	}
	return catalog.Auto[len(catalog.Auto)-1]
}

// automatic returns the plug-in of a kind that a value stands for, "" if this program has none.
func automatic(kind, value string) string {
	if value != "auto" {
		return value
	}
	if catalog, ok := registry.Find(kind); ok && len(catalog.Auto) > 0 {
		return catalog.Auto[0]
	}
	return ""
}

// engines applies the engine of the command line, and replaces auto with the engine that it stands
// for.
func (r *resolution) engines() {
	engine := r.source.opts.Engine
	trainers, samplers := registry.Trainers.Names(), registry.Samplers.Names()
	both := slices.DeleteFunc(trainers, func(name string) bool { return !slices.Contains(samplers, name) })
	switch {
	case engine == "" || engine == "auto":
	case slices.Contains(both, engine):
		r.Trainer.TrainerType, r.Explorer.RolloutModel.EngineType = engine, engine
		for i := range r.Explorer.AuxiliaryModels {
			r.Explorer.AuxiliaryModels[i].EngineType = engine
		}
	default:
		r.errs = append(r.errs, Error{File: commandLine, Key: "--engine", Message: fmt.Sprintf("the engine %q is not built into this version", engine),
			Hint: "known: auto, " + strings.Join(both, ", "), Unsupported: true})
	}
	r.Engines.Train = automatic("trainer", r.Trainer.TrainerType)
	r.Engines.Sample = automatic("sampler", r.Explorer.RolloutModel.EngineType)
}

// engines looks up the engines that the mode opens, with their arguments. An engine that the mode
// does not open may have any name.
func (p *pluginCheck) engines() {
	if p.Trains {
		p.named("trainer", p.Engines.Train, trainerTypeKey, p.Trainer.TrainerArgs, trainerArgsKey)
	}
	if p.Samples {
		p.named("sampler", p.Engines.Sample, engineTypeKey, p.Explorer.RolloutModel.EngineArgs, engineArgsKey)
	}
}

// engineHint returns the hint that names an engine of this program.
func engineHint(kind string) string {
	return fmt.Sprintf("run with --engine %[1]s, which this program has, or write %[1]s here", automatic(kind, "auto"))
}

// weights refuses a weights plug-in that the mode does not use.
func (r *rules) weights() {
	if name := r.Synchronizer.SyncMethod; !r.Together && !slices.Contains(upstreamSyncMethods, name) {
		r.fail("synchronizer.sync_method", fmt.Sprintf("%s brings weights to a sampler of the same process, and in mode %s there is none", name, r.Mode), "leave it out")
	}
}
