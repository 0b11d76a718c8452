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

// TrainEngine returns the plug-in that opens what is trained: what trainer.trainer_type names, or what auto stands for.
func (c *Config) TrainEngine() string { return automatic("trainer", c.Trainer.TrainerType) }

// SampleEngine returns the plug-in that opens what samples: what explorer.rollout_model.engine_type names, or what auto stands for.
func (c *Config) SampleEngine() string {
	return automatic("sampler", c.Explorer.RolloutModel.EngineType)
}

// samples reports whether the mode samples from the trained model.
func (c *Config) samples() bool { return c.Mode != "train" }

// automatic returns the plug-in of a kind that a value stands for; "" where this program has none.
func automatic(kind, value string) string {
	if value != "auto" {
		return value
	}
	if catalog, ok := registry.Find(kind); ok && len(catalog.Auto) > 0 {
		return catalog.Auto[0]
	}
	return ""
}

// engines applies the engine of the command line.
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
}

// engines looks up the engines that the mode opens, with their arguments. Those that it does not open may be any.
func (p *pluginCheck) engines() {
	if p.trains() {
		p.named("trainer", p.TrainEngine(), trainerTypeKey, p.Trainer.TrainerArgs, trainerArgsKey)
	}
	if p.samples() {
		p.named("sampler", p.SampleEngine(), engineTypeKey, p.Explorer.RolloutModel.EngineArgs, engineArgsKey)
	}
}

// engineHint says how to get an engine that this program has.
func engineHint(kind string) string {
	return fmt.Sprintf("run with --engine %[1]s, which this program has, or write %[1]s here", automatic(kind, "auto"))
}

// Weights returns the plug-in that brings weights to a sampler of the same process: what synchronizer.sync_method names. Of a value of
// Trinity-RFT it is the first that fits: one that shares memory where one engine trains and samples.
func (c *Config) Weights() string {
	if name := c.Synchronizer.SyncMethod; !slices.Contains(upstreamSyncMethods, name) {
		return name
	}
	catalog, ok := registry.Find("weights")
	switch {
	case !ok || len(catalog.Auto) == 0:
		return ""
	case c.TrainEngine() == c.SampleEngine():
		return catalog.Auto[0]
	}
	return catalog.Auto[len(catalog.Auto)-1]
}

// weights refuses a plug-in that the mode does not use.
func (r *rules) weights() {
	if name := r.Synchronizer.SyncMethod; !r.Together() && !slices.Contains(upstreamSyncMethods, name) {
		r.fail("synchronizer.sync_method", fmt.Sprintf("%s brings weights to a sampler of the same process, and in mode %s there is none", name, r.Mode), "leave it out")
	}
}
