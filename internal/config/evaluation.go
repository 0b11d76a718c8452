package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/trinity-go/trinity/registry"
)

const evalBuffersKey = "buffer.trainer_input.eval_buffers"

// evalBuffers completes eval_buffers. They are datasets, of the run's own schema unless the file
// sets schema_type.
func (r *resolution) evalBuffers() {
	all := r.Buffer.TrainerInput.EvalBuffers
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, key := all[name], join(evalBuffersKey, name)
		r.dataset(key, name, &b)
		setDefault(&b.SchemaType, r.Buffer.TrainerInput.ExperienceBuffer.SchemaType)
		r.plainText(key, &b)
		all[name] = b
	}
	if r.Trains {
		r.Data.Measured = byName(evalBuffersKey, all)
	}
}

// evaluation checks that the run can measure its eval_buffers.
func (r *rules) evaluation() {
	for _, b := range r.Data.Measured {
		switch {
		case !r.Offline:
			r.fail(b.Key, fmt.Sprintf("eval_buffers need an algorithm that trains on a dataset, and %s trains on rollouts",
				r.Algorithm.AlgorithmType), "use buffer.explorer_input.eval_tasksets")
			continue
		case b.Path == "":
			r.fail(b.Key+".path", "there is nothing to measure", "set the path of a file, a directory or a hub dataset")
		case !r.measures(b.SchemaType):
			const what = "is %s, which %s cannot measure: it is not a schema of datasets, or it needs a policy or a reference model, and the " +
				"run has none"
			r.fail(b.Key+".schema_type", fmt.Sprintf(what, b.SchemaType, r.Algorithm.AlgorithmType), "leave it out")
		}
		for _, k := range []struct {
			name string
			set  bool
		}{
			{"data_selector", b.DataSelector.SelectorType != newDefault[DataSelector]().SelectorType}, {"task_selector", b.TaskSelector != nil},
			{"total_epochs", b.TotalEpochs != nil},
			{"total_steps", b.TotalSteps != nil},
		} {
			if k.set {
				r.fail(join(b.Key, k.name), "the trainer measures every row once, in order", "remove it")
			}
		}
	}
}

// measures reports whether the run can measure rows of a schema: its own, or one whose algorithm
// needs no model that the run lacks.
func (r *rules) measures(schema string) bool {
	if schema == r.Buffer.TrainerInput.ExperienceBuffer.SchemaType {
		return true
	}
	if r.Method.Scores {
		return false
	}
	a, err := registry.Algorithms.Build(schema)
	return err == nil && (r.Method.Reference || !weighs(a.KLLoss, a.KLLossArgs) && !policyNeeds(a).Reference)
}

// unsupportedEvaluation refuses settings of eval_buffers that this version does not support.
func (s *Settled) unsupportedEvaluation(refuse func(key, what, hint string)) {
	for _, b := range s.Data.Measured {
		b.unsupported(refuse)
	}
}
