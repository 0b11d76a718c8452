package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/database/dburl"
)

const inputsKey = pipelineKey + ".inputs"

// PerStep returns how many groups an input adds to each explore step.
func (b *ExperienceBuffer) PerStep() int {
	if b.BatchSize == nil {
		return 1
	}
	return *b.BatchSize
}

// inputWords describes an input.
func (b NamedBuffer) inputWords(rows map[string]int) string {
	text := b.words("input", rows) + fmt.Sprintf(", batch_size %d", b.PerStep())
	switch {
	case b.TotalSteps != nil:
		return text + fmt.Sprintf(", total_steps %d", *b.TotalSteps)
	case b.TotalEpochs != nil:
		return text + fmt.Sprintf(", total_epochs %d", *b.TotalEpochs)
	}
	return text + ", again and again"
}

// inputs completes the inputs. They are datasets, of experiences unless the file sets schema_type.
func (r *resolution) inputs() {
	all := r.DataProcessor.ExperiencePipeline.Inputs
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, key := all[name], join(inputsKey, name)
		r.taskSelector(key, &b.TaskSelector, &b.DataSelector)
		r.dataset(key, name, &b)
		setDefault(&b.SchemaType, "experience")
		all[name] = b
	}
	if r.Explores {
		r.Data.Inputs = byName(inputsKey, all)
	}
}

// inputs checks that every input can join rollouts, and that no other buffer has a key that only
// inputs have.
func (r *rules) inputs() {
	tasksets := map[string]bool{}
	for _, t := range r.Data.Tasksets {
		tasksets[t.Name] = tasksets[t.Name] || !t.Eval
	}
	for _, b := range r.Data.Inputs {
		switch {
		case !IsPlain(b.Name):
			r.fail(b.Key, fmt.Sprintf("%q is not a plain name", b.Name), "it becomes part of metrics and task ids: use letters, digits, - and _")
		case tasksets[b.Name]:
			r.fail(b.Key, fmt.Sprintf("a taskset is called %s too", b.Name), "task ids need different names")
		}
		if b.SchemaType != "experience" && b.SchemaType != "sft" {
			r.fail(b.Key+".schema_type", "rows of schema "+b.SchemaType+" cannot join rollouts",
				"use experience for rollouts that an earlier run kept, or sft for demonstrations")
		}
		if b.Path == "" {
			r.fail(b.Key+".path", "there is nothing to read", "set the path of a file, a directory or a hub dataset")
		} else if r.writes(b.Path) {
			r.fail(b.Key+".path", "this run writes its own copy of experiences there", "copy the file, or choose another path to write to")
		}
		if b.Format.EnableConcatenatedMultiTurn && b.SchemaType != "sft" {
			r.fail(b.Key+".format.enable_concatenated_multi_turn", "is for schema sft, but this input reads schema "+b.SchemaType, "remove it")
		}
	}
	others := slices.Concat(r.Data.Auxiliary, r.Data.Measured)
	for _, b := range append(others, NamedBuffer{ExperienceBuffer: *r.Buffer.TrainerInput.ExperienceBuffer, Key: storeKey}) {
		if b.BatchSize != nil {
			r.fail(b.Key+".batch_size", "only inputs of the experience pipeline have one", "use buffer.train_batch_size")
		}
	}
}

// writes reports whether the run keeps a copy of experiences at path. It returns false for a
// database, in which archives of several runs can be side by side.
func (s *Settled) writes(path string) bool {
	if dburl.IsURL(path) {
		return false
	}
	p := &s.DataProcessor.ExperiencePipeline
	path = filepath.Clean(path)
	return p.OutputSavePath != "" && path == filepath.Clean(p.OutputSavePath) || p.SaveInput && path == filepath.Clean(s.InputCopy())
}

// unsupportedInputs refuses settings of inputs that this version does not support.
func (s *Settled) unsupportedInputs(refuse func(key, what, hint string)) {
	for _, b := range s.Data.Inputs {
		b.unsupported(refuse)
	}
}
