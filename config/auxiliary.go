package config

import (
	"fmt"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"maps"
	"slices"
	"strings"
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
		all = append(all, NamedBuffer{section[name], join(key, name), name})
	}
	return all
}

// Besides lists all datasets that the run reads beside the experience buffer.
func (s *Settled) Besides() []NamedBuffer {
	return slices.Concat(s.Data.Auxiliary, s.Data.Measured, s.Data.Inputs)
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
func (s *Settled) auxiliary() map[string]string {
	if !s.Trains {
		return nil
	}
	return s.Method.Sample.Auxiliary
}

// auxiliaryBuffers completes the auxiliary buffers. They are datasets and have the schema that the
// strategy reads.
func (r *resolution) auxiliaryBuffers() {
	schemas, all := r.auxiliary(), r.Buffer.TrainerInput.AuxiliaryBuffers
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b, key := all[name], join(auxiliaryKey, name)
		r.taskSelector(key, &b.TaskSelector, &b.DataSelector)
		r.dataset(key, name, &b)
		if schema := schemas[name]; schema != "" {
			if b.SchemaType != "" && b.SchemaType != schema {
				r.fail(key+".schema_type", fmt.Sprintf("is %q, but sample_strategy %s reads %q", b.SchemaType, r.Algorithm.SampleStrategy, schema),
					"leave it out")
			}
			b.SchemaType = schema
		}
		all[name] = b
		if _, read := schemas[name]; read {
			r.Data.Auxiliary = append(r.Data.Auxiliary, NamedBuffer{b, key, name})
		}
	}
}

// dataset completes a buffer that must be a dataset.
func (r *resolution) dataset(key, name string, b *ExperienceBuffer) {
	setDefault(&b.Name, name)
	if b.StorageType == "queue" {
		if r.IsSet(key + ".storage_type") {
			r.fail(key+".storage_type", "this buffer is a dataset, not a queue", "set it to file, or leave it out")
		}
		b.StorageType = "file"
	}
}

// strategy checks that the buffers match those that the sample strategy reads.
func (r *rules) strategy() {
	const key = "algorithm.sample_strategy"
	if !r.Trains {
		return
	}
	if r.Method.Strategy == nil {
		return // reported with the plug-ins
	}
	if name := r.Algorithm.SampleStrategy; r.Offline && !named(name, "", "default") {
		r.fail(key, fmt.Sprintf("%s chooses among rollouts, and %s trains on a dataset", name, r.Algorithm.AlgorithmType), "leave it out")
		return
	}
	wanted, there := r.auxiliary(), r.Buffer.TrainerInput.AuxiliaryBuffers
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		b, ok := there[name]
		switch {
		case !ok && len(there) > 0:
			r.fail(key+"_args", fmt.Sprintf("%s reads the auxiliary buffer %q, which does not exist", r.Algorithm.SampleStrategy, name),
				"there is "+strings.Join(slices.Sorted(maps.Keys(there)), ", "))
		case !ok:
			r.fail(key, fmt.Sprintf("%s reads the auxiliary buffer %q, which does not exist", r.Algorithm.SampleStrategy, name),
				"add "+join(auxiliaryKey, name))
		case b.Path == "":
			r.fail(join(auxiliaryKey, name)+".path", "an auxiliary buffer needs a dataset", "set the path of a file, a directory or a hub dataset")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if wanted[name] == "" {
			r.fail(join(auxiliaryKey, name), fmt.Sprintf("sample_strategy %s does not read it", r.Algorithm.SampleStrategy),
				"remove it, or name it in algorithm.sample_strategy_args of a strategy that mixes")
		}
	}
	if len(wanted) > 0 && r.Batch.Train > 0 {
		r.mixture()
	}
}

// mixture requires rollouts in every train step, and both rollouts and demonstrations in every
// optimizer step. AdamW removes the scale of a loss, so a step with one kind alone would learn from
// it whatever its weight is.
func (r *rules) mixture() {
	batch, size := r.Batch.Train, r.Batch.Mini
	rollouts := r.Batch.Rollouts
	if rollouts < 1 {
		r.fail("buffer.train_batch_size", fmt.Sprintf("is %d, and sample_strategy %s leaves no rollout of it", batch, r.Algorithm.SampleStrategy),
			"raise it, or lower the share of demonstrations")
		return
	}
	rarer, kind := batch-rollouts, "demonstrations"
	if rollouts < rarer {
		rarer, kind = rollouts, "rollouts"
	}
	if steps := ceil(batch, size); rarer > 0 && steps > rarer {
		const what = "is %d: of the %d experiences of a train step %d are %s, too few for its %d optimizer steps"
		r.fail(actorKey+".ppo_mini_batch_size", fmt.Sprintf(what, size, batch, rarer, kind, steps),
			fmt.Sprintf("set it to %d or more", ceil(batch, rarer)))
	}
}

// unsupportedAuxiliary refuses settings of auxiliary buffers that this version does not support.
func (s *Settled) unsupportedAuxiliary(refuse func(key, what, hint string)) {
	for _, b := range s.Data.Auxiliary {
		b.unsupported(refuse)
		if b.TotalSteps != nil {
			refuse(b.Key+".total_steps", "a number of steps for one buffer", "use total_epochs")
		}
		if b.Format.Packing {
			refuse(b.Key+".format.packing", "demonstrations packed into sequences", "")
		}
	}
}

// unsupported refuses settings that no buffer beside the experience buffer supports.
func (b *NamedBuffer) unsupported(refuse func(key, what, hint string)) {
	if b.ReplayBuffer.Enable {
		refuse(b.Key+".replay_buffer.enable", "a priority replay buffer", "")
	}
	unsupportedFormat(b.Key, &b.Format, refuse)
}

// unusedOfDataset returns why the buffers at a pattern, which the run reads row by row, have no use for some keys.
// name says what has its name instead.
func unusedOfDataset(pattern, name string) (all []unusedKey) {
	for _, key := range []string{"capacity", "capacity_mb", "max_read_timeout", "replay_buffer"} {
		all = append(all, unusedKey{join(pattern, key), always("this buffer is a dataset, which the run reads row by row")})
	}
	return append(all, unusedKey{join(pattern, "name"), always(name)})
}

var unusedOfDatasets = slices.Concat(
	unusedOfDataset(auxiliaryKey+".*", "the sample strategy calls it by its key"),
	unusedOfDataset(evalBuffersKey+".*", "metrics call it by its key"),
	unusedOfDataset(inputsKey+".*", "the pipeline calls it by its key"),
	[]unusedKey{
		{auxiliaryKey, unless(trains, "only the trainer reads it")},
		{evalBuffersKey, unless(trains, "only the trainer reads it")},
		{inputsKey, unless(explores, "only the explorer reads it")},
		{"buffer", unusedChoice},
		{inputsKey, unusedChoice},
	},
)

// unusedChoice returns why split or subset_name has no meaning for the path of a section, "" if it has one.
func unusedChoice(s *Settled, key string) string {
	for _, d := range s.datasets() {
		split := key == d.key+".split"
		switch {
		case !split && key != d.key+".subset_name":
		case d.storage == "task_dir":
			return "every folder of the path is a task: there are neither splits nor subsets"
		case split && dburl.IsURL(d.path):
			return "a database has no splits: subset_name chooses rows"
		case isFile(d.path):
			return "the path is one file, all of whose rows are read: name a directory to choose a split or subset of it"
		}
	}
	return ""
}
