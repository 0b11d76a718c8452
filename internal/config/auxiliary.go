package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

const auxiliaryKey = "buffer.trainer_input.auxiliary_buffers"

// NamedBuffer is a buffer beside the experience buffer, with its place in the file.
type NamedBuffer struct {
	ExperienceBuffer
	Key  string // dotted path
	Name string // its key
}

// byName lists the buffers of a section, sorted by name. key is the path of the section.
func byName(key string, section map[string]ExperienceBuffer) (all []NamedBuffer) {
	for _, name := range slices.Sorted(maps.Keys(section)) {
		all = append(all, NamedBuffer{section[name], tags.Join(key, name), name})
	}
	return all
}

// Besides lists all datasets that the run reads beside the experience buffer.
func (d *Data) Besides() []NamedBuffer {
	return slices.Concat(d.Auxiliary, d.Measured, d.Inputs)
}

// words describes a buffer of a kind for a plan. rows is [Facts].Rows.
func (b NamedBuffer) words(kind string, rows map[string]int) string {
	text := fmt.Sprintf("%s %s (%s): %s", kind, b.Name, b.SchemaType, b.Path)
	if n, ok := rows[b.Key]; ok {
		text += fmt.Sprintf(", %d rows", n)
	}
	return text
}

// auxiliaryWords describes an auxiliary buffer.
func (b NamedBuffer) auxiliaryWords(rows map[string]int) string {
	text := b.words("auxiliary buffer", rows)
	if n := b.TotalEpochs; n != nil {
		return text + fmt.Sprintf(", total_epochs %d", *n)
	}
	return text + ", again and again"
}

// auxiliary maps the names of the auxiliary buffers that the run reads to their schemas.
func (m *Method) auxiliary(w Work) map[string]string {
	if !w.Trains {
		return nil
	}
	return m.Sample.Auxiliary
}

// settleAuxiliaryBuffers completes the auxiliary buffers. They are datasets and have the schema that the
// strategy reads.
func settleAuxiliaryBuffers(r report, algorithm *Algorithm, buffer *Buffer, data *Data, method *Method, w Work) {
	schemas, all := method.auxiliary(w), buffer.TrainerInput.AuxiliaryBuffers
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, key := all[name], tags.Join(auxiliaryKey, name)
		moveTaskSelector(r, key, &b.TaskSelector, &b.DataSelector)
		asDataset(r, key, name, &b)
		if schema := schemas[name]; schema != "" {
			if b.SchemaType != "" && b.SchemaType != schema {
				r.fail(key+".schema_type", fmt.Sprintf("is %q, but sample_strategy %s reads %q", b.SchemaType, algorithm.SampleStrategy, schema),
					"leave it out")
			}
			b.SchemaType = schema
		}
		all[name] = b
		if _, read := schemas[name]; read {
			data.Auxiliary = append(data.Auxiliary, NamedBuffer{b, key, name})
		}
	}
}

// asDataset completes a buffer that must be a dataset.
func asDataset(r report, key, name string, b *ExperienceBuffer) {
	setDefault(&b.Name, name)
	if b.StorageType == "queue" {
		if r.IsSet(key + ".storage_type") {
			r.fail(key+".storage_type", "this buffer is a dataset, not a queue", "set it to file, or leave it out")
		}
		b.StorageType = "file"
	}
}

// checkStrategy checks that the buffers match those that the sample strategy reads.
func checkStrategy(r report, algorithm *Algorithm, batch *Batch, buffer *Buffer, method *Method, w Work) {
	const key = "algorithm.sample_strategy"
	if !w.Trains {
		return
	}
	if method.Strategy == nil {
		return // reported with the plug-ins
	}
	if name := algorithm.SampleStrategy; w.Offline && !named(name, "", "default") {
		r.fail(key, fmt.Sprintf("%s chooses among rollouts, and %s trains on a dataset", name, algorithm.AlgorithmType), "leave it out")
		return
	}
	wanted, there := method.auxiliary(w), buffer.TrainerInput.AuxiliaryBuffers
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		b, ok := there[name]
		switch {
		case !ok && len(there) > 0:
			r.fail(key+"_args", fmt.Sprintf("%s reads the auxiliary buffer %q, which does not exist", algorithm.SampleStrategy, name),
				"there is "+strings.Join(slices.Sorted(maps.Keys(there)), ", "))
		case !ok:
			r.fail(key, fmt.Sprintf("%s reads the auxiliary buffer %q, which does not exist", algorithm.SampleStrategy, name),
				"add "+tags.Join(auxiliaryKey, name))
		case b.Path == "":
			r.fail(auxiliaryKey+"."+name+".path", "an auxiliary buffer needs a dataset", "set the path of a file, a directory or a hub dataset")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if wanted[name] == "" {
			r.fail(tags.Join(auxiliaryKey, name), fmt.Sprintf("sample_strategy %s does not read it", algorithm.SampleStrategy),
				"remove it, or name it in algorithm.sample_strategy_args of a strategy that mixes")
		}
	}
	if len(wanted) > 0 && batch.Train > 0 {
		checkMixture(r, algorithm, batch)
	}
}

// checkMixture requires rollouts in every train step, and both rollouts and demonstrations in every
// optimizer step. AdamW removes the scale of a loss, so a step with one kind alone would learn from
// it whatever its weight is.
func checkMixture(r report, algorithm *Algorithm, batch *Batch) {
	train, rollouts := batch.Train, batch.Rollouts
	if rollouts < 1 {
		r.fail("buffer.train_batch_size", fmt.Sprintf("is %d, and sample_strategy %s leaves no rollout of it", train, algorithm.SampleStrategy),
			"raise it, or lower the share of demonstrations")
		return
	}
	rarer, kind := train-rollouts, "demonstrations"
	if rollouts < rarer {
		rarer, kind = rollouts, "rollouts"
	}
	if steps := ceil(train, batch.Mini); rarer > 0 && steps > rarer {
		const what = "is %d: of the %d experiences of a train step %d are %s, too few for its %d optimizer steps"
		r.fail(actorKey+".ppo_mini_batch_size", fmt.Sprintf(what, batch.Mini, train, rarer, kind, steps),
			fmt.Sprintf("set it to %d or more", ceil(train, rarer)))
	}
}

// unsupported refuses settings of datasets that this version does not support.
func (d *Data) unsupported(blind refusedImages, refuse func(key, what, hint string)) {
	for _, b := range d.Auxiliary {
		b.unsupported(blind, refuse)
		if b.TotalSteps != nil {
			refuse(b.Key+".total_steps", "a number of steps for one buffer", "use total_epochs")
		}
		if b.Format.Packing {
			refuse(b.Key+".format.packing", "demonstrations packed into sequences", "")
		}
	}
	for _, b := range slices.Concat(d.Measured, d.Inputs) {
		b.unsupported(blind, refuse)
	}
}

// unsupported refuses settings that no buffer beside the experience buffer supports.
func (b *NamedBuffer) unsupported(blind refusedImages, refuse func(key, what, hint string)) {
	if b.ReplayBuffer.Enable {
		refuse(b.Key+".replay_buffer.enable", "a priority replay buffer", "")
	}
	unsupportedFormat(b.Key, &b.Format, blind, refuse)
}

// unusedOfDataset returns why the buffers at a pattern, which the run reads row by row, have no use for some keys.
// name says what has its name instead.
func unusedOfDataset(pattern, name string) (all []unusedKey) {
	for _, key := range []string{"capacity", "capacity_mb", "max_read_timeout", "replay_buffer"} {
		all = append(all, unusedKey{tags.Join(pattern, key), always("this buffer is a dataset, which the run reads row by row")})
	}
	return append(all, unusedKey{tags.Join(pattern, "name"), always(name)})
}

var unusedOfDatasets = slices.Concat(
	unusedOfDataset(auxiliaryKey+".*", "the sample strategy calls it by its key"),
	unusedOfDataset(evalBuffersKey+".*", "metrics call it by its key"),
	unusedOfDataset(inputsKey+".*", "the pipeline calls it by its key"),
	[]unusedKey{
		{auxiliaryKey, onlyIf(trains, "only the trainer reads it")},
		{evalBuffersKey, onlyIf(trains, "only the trainer reads it")},
		{inputsKey, onlyIf(explores, "only the explorer reads it")},
		{"*", unusedChoice},
	},
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

// settleInputs completes the inputs. They are datasets, of experiences unless the file sets schema_type.
func settleInputs(r report, data *Data, processor *DataProcessor, w Work) {
	all := processor.ExperiencePipeline.Inputs
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, key := all[name], tags.Join(inputsKey, name)
		moveTaskSelector(r, key, &b.TaskSelector, &b.DataSelector)
		asDataset(r, key, name, &b)
		setDefault(&b.SchemaType, "experience")
		all[name] = b
	}
	if w.Explores {
		data.Inputs = byName(inputsKey, all)
	}
}

// checkInputs checks that every input can join rollouts, and that no other buffer has a key that only
// inputs have.
func checkInputs(r report, buffer *Buffer, data *Data, processor *DataProcessor) {
	tasksets := map[string]bool{}
	for _, t := range data.Tasksets {
		tasksets[t.Name] = tasksets[t.Name] || !t.Eval
	}
	for _, b := range data.Inputs {
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
		} else if processor.writes(b.Path, buffer) {
			r.fail(b.Key+".path", "this run writes its own copy of experiences there", "copy the file, or choose another path to write to")
		}
		if b.Format.EnableConcatenatedMultiTurn && b.SchemaType != "sft" {
			r.fail(b.Key+".format.enable_concatenated_multi_turn", "is for schema sft, but this input reads schema "+b.SchemaType, "remove it")
		}
	}
	others := slices.Concat(data.Auxiliary, data.Measured)
	for _, b := range append(others, NamedBuffer{ExperienceBuffer: *buffer.TrainerInput.ExperienceBuffer, Key: storeKey}) {
		if b.BatchSize != nil {
			r.fail(b.Key+".batch_size", "only inputs of the experience pipeline have one", "use buffer.train_batch_size")
		}
	}
}

// writes reports whether the run keeps a copy of experiences at path. It returns false for a
// database, in which archives of several runs can be side by side.
func (d *DataProcessor) writes(path string, b *Buffer) bool {
	if dburl.IsURL(path) {
		return false
	}
	p := &d.ExperiencePipeline
	path = filepath.Clean(path)
	return p.OutputSavePath != "" && path == filepath.Clean(p.OutputSavePath) || p.SaveInput && path == filepath.Clean(d.InputCopy(b))
}

const evalBuffersKey = "buffer.trainer_input.eval_buffers"

// settleEvalBuffers completes eval_buffers. They are datasets, of the run's own schema unless the file
// sets schema_type.
func settleEvalBuffers(r report, buffer *Buffer, data *Data, w Work) {
	all := buffer.TrainerInput.EvalBuffers
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, key := all[name], tags.Join(evalBuffersKey, name)
		asDataset(r, key, name, &b)
		setDefault(&b.SchemaType, buffer.TrainerInput.ExperienceBuffer.SchemaType)
		plainText(r, key, &b)
		all[name] = b
	}
	if w.Trains {
		data.Measured = byName(evalBuffersKey, all)
	}
}

// checkEvaluation checks that the run can measure its eval_buffers.
func checkEvaluation(r report, algorithm *Algorithm, buffer *Buffer, data *Data, method *Method, w Work) {
	for _, b := range data.Measured {
		switch {
		case !w.Offline:
			r.fail(b.Key, fmt.Sprintf("eval_buffers need an algorithm that trains on a dataset, and %s trains on rollouts",
				algorithm.AlgorithmType), "use buffer.explorer_input.eval_tasksets")
			continue
		case b.Path == "":
			r.fail(b.Key+".path", "there is nothing to measure", "set the path of a file, a directory or a hub dataset")
		case !measures(r, buffer, method, b.SchemaType):
			const what = "is %s, which %s cannot measure: it is not a schema of datasets, or it needs a policy or a reference model, and the " +
				"run has none"
			r.fail(b.Key+".schema_type", fmt.Sprintf(what, b.SchemaType, algorithm.AlgorithmType), "leave it out")
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
				r.fail(tags.Join(b.Key, k.name), "the trainer measures every row once, in order", "remove it")
			}
		}
	}
}

// measures reports whether the run can measure rows of a schema: its own, or one whose algorithm
// needs no model that the run lacks.
func measures(r report, buffer *Buffer, method *Method, schema string) bool {
	if schema == buffer.TrainerInput.ExperienceBuffer.SchemaType {
		return true
	}
	if method.Scores {
		return false
	}
	a, err := registry.Algorithms.Build(schema)
	return err == nil && (method.Reference || !weighs(a.KLLoss, a.KLLossArgs) && !policyNeeds(a).Reference)
}
