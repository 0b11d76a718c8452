package config

import (
	"fmt"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/registry"
)

// settle fills in the keys that follow from other keys, decides everything that a run asks of its
// configuration, and reports contradictions. A step reads only what the steps above it have filled
// in; its comment names what it fills in.
func (s *Settled) settle(r report) {
	data, method, batch := &s.Data, &s.Method, &s.Batch
	s.Work = s.work() // what the mode does
	if s.InitSeed = s.Seed; s.Model.Init.Seed != nil {
		s.InitSeed = *s.Model.Init.Seed
	}
	sets := s.Buffer.ExplorerInput.tasksets()
	images := showsImages(sets, &s.Buffer)
	settleAliases(r, &s.Algorithm, &s.Buffer, sets, &s.Explorer, &s.Synchronizer, &s.Trainer) // keys and values that have a new name
	settleTinker(r, &s.Engines, &s.Explorer, &s.Model, &s.Trainer)                            // model.tinker.enable, engines, adapter
	settleExternal(r, &s.Explorer, &s.Model)                                                  // model.external_model.enable, engine_type
	settleEngines(r, &s.Cluster, &s.Engines, &s.Explorer, &s.Trainer, images)                 // the engines' types, Engines.Train and Sample
	s.Model.settleLengths(r)                                                                  // model.max_model_len and its two parts
	method.own, method.unknown = algorithmType(&s.Config, r)                                  // Method.own
	method.settle(&s.Algorithm, &s.Work, batch, s.Plugin)                                     // Method, Offline, Batch.PerRow
	s.Model.Tinker.dropEntropy(method)                                                        // Method.Parts
	settleAlgorithm(r, &s.Algorithm, method, &s.Trainer, s.Work)                              // the keys that the algorithm's type decides
	s.Teachers = teachersOf(r, &s.Engines, &s.Explorer, method, s.Work)                       // Teachers
	settleModels(&s.Explorer, &s.Model, &s.Trainer)                                           // defaults of rollout and auxiliary models
	settleTasksets(r, &s.Buffer, sets, &s.Explorer, method)                                   // defaults of tasksets
	s.Asked = askedOf(&s.Explorer, method, s.Work)                                            // Asked
	settleBuffers(r, &s.Algorithm, &s.Buffer, method, &s.Work)                                // the experience buffer, the rest of Work
	s.TaskPipeline = s.DataProcessor.settleTaskPipeline(r, &s.Buffer, sets, s.Work)           // TaskPipeline and the path that it writes
	data.Tasksets = entriesOf(sets)                                                           // Data.Tasksets
	settleAuxiliaryBuffers(r, &s.Algorithm, &s.Buffer, data, method, s.Work)                  // Data.Auxiliary
	settleEvalBuffers(r, &s.Buffer, data, s.Work)                                             // Data.Measured
	settleInputs(r, data, &s.DataProcessor, s.Work)                                           // Data.Inputs
	batch.settleExplored(r, &s.Buffer, &s.Cod, data, method, s.Work)                          // Batch.CountsRollouts, StepRollouts
	batch.settleSizes(&s.Buffer, method, &s.Trainer, s.Work)                                  // Batch, but for what follows
	s.Critic = criticOf(r, &s.Algorithm, batch, method, &s.Trainer, s.Work)                   // Critic
	batch.settleMicroTokens(s.Critic, &s.Engines, &s.Model, &s.Trainer)                       // MicroTokens
	batch.settleConcurrency(r, &s.Buffer, &s.Explorer, method, &s.Synchronizer, s.Work)       // StepsInFlight, Sequences
	s.Synchronizer.settle(r, &s.Buffer, &s.Engines, &s.Explorer, method, &s.Model, s.Work)    // both sync intervals, Engines.Weights
	batch.warnOfShortSteps(r, &s.Buffer, &s.Synchronizer, s.Work)
	if s.Trains && s.unusedByEngines(strategyKey) == "" {
		s.Trainer.warnOfStrategy(r)
	}
	s.Monitor.settle()    // monitor.monitor_type
	s.settlePaths(s.Work) // the directories of the run
}

// report collects what is wrong with a configuration. It is a handle that checks pass on.
type report struct {
	source   *source // where keys stand
	errs     *Errors
	warnings *[]string
}

func (r report) fail(key, message, hint string) { r.add(r.errorFor(key, message, hint)) }

func (r report) errorFor(key, message, hint string) Error {
	return r.source.errorFor(key, message, hint)
}

// IsSet reports whether the file or the command line gives the key.
func (r report) IsSet(key string) bool { return r.source.IsSet(key) }

func (r report) add(e Error) { *r.errs = append(*r.errs, e) }

// errorFor returns an error at the place where the file writes a key.
func (s *source) errorFor(key, message, hint string) Error {
	p := s.Pos(key)
	return Error{File: p.File, Line: p.Line, Col: p.Col, Key: s.written(key), Message: message, Hint: hint}
}

// written returns a key as the file writes it: with the number of its stage, if it stands there.
func (s *source) written(key string) string {
	if _, ok := s.whole[s.stage+key]; ok {
		return s.stage + key
	}
	return key
}

func (r report) warn(key, format string, args ...any) {
	text := fmt.Sprintf("%s: %s: %s", r.source.Pos(key), r.source.written(key), fmt.Sprintf(format, args...))
	*r.warnings = append(*r.warnings, safetext.Hidden(text))
}

// settlePaths fills in the directories of the run.
func (c *Config) settlePaths(w Work) {
	c.CheckpointJobDir = filepath.Join(c.CheckpointRootDir, c.Project, c.Group, c.Name)
	c.Buffer.CacheDir = filepath.Join(c.CheckpointJobDir, rundir.Buffer)
	b := c.Buffer.TrainerInput.ExperienceBuffer
	if s, ok := registry.Buffers.Default(b.StorageType).(StorePlace); ok && !w.Offline {
		setDefault(&b.Path, s.DefaultPath(c.Buffer.CacheDir, b.Name))
	}
	c.Monitor.CacheDir = filepath.Join(c.CheckpointJobDir, rundir.Monitor)
	c.Log.SaveDir = filepath.Join(c.CheckpointJobDir, rundir.Logs)
}

func ptr[T any](v T) *T { return &v }

func newDefault[T any]() *T {
	p := new(T)
	setDefaults(valueOf(p))
	return p
}

// setDefault sets an empty text to v.
func setDefault(s *string, v string) {
	if *s == "" {
		*s = v
	}
}

// Value returns the last override that is set, else v.
func Value[T any](v T, overrides ...*T) T {
	for _, o := range overrides {
		if o != nil {
			v = *o
		}
	}
	return v
}

// inherit sets an unset value to a copy of from, if that is set.
func inherit[T any](p **T, from *T) {
	if *p == nil && from != nil {
		*p = ptr(*from)
	}
}
