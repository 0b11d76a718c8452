package config

import (
	"fmt"
	"strings"
	"testing"
)

// joinedBase is base with two inputs of the experience pipeline, not in the order of their names.
var joinedBase = base + `data_processor:
  experience_pipeline:
    inputs:
      shown: {path: shown.jsonl, schema_type: sft, batch_size: 3, total_epochs: 2}
      old: {path: old.parquet}
`

func TestInputs(t *testing.T) {
	c := mustParse(t, joinedBase)
	all := c.settled[0].Data.Inputs
	if len(all) != 2 || all[0].Name != "old" || all[0].SchemaType != "experience" || all[0].PerStep() != 1 || all[1].PerStep() != 3 ||
		all[1].StorageType != "file" {
		t.Errorf("%+v", all)
	}
	if got, want := c.settled[0].Batch.StepRollouts, c.Buffer.BatchSize*c.settled[0].Method.GroupSize+c.settled[0].Method.GroupSize+3; got != want || c.settled[0].Batch.Train != want {
		t.Errorf("%d rollouts in a step and %d in a train step, want %d", got, c.settled[0].Batch.Train, want)
	}
	if got := fmt.Sprint(c.settled[0].Sources()); !strings.Contains(got, inputsKey+".old.path "+inputsKey+".shown.path") {
		t.Errorf("reads %s", got)
	}
	c = mustParse(t, joinedBase, Options{Overrides: []string{"mode=train", "buffer.train_batch_size=4"}})
	if notes := fmt.Sprint(c.settled[0].Unused()); len(c.settled[0].Data.Inputs) != 0 ||
		!strings.Contains(notes, "only the explorer reads it") {
		t.Errorf("a trainer reads %v; %s", c.settled[0].Data.Inputs, notes)
	}
}

func TestRefusedInputs(t *testing.T) {
	const old = inputsKey + ".old"
	for _, c := range []struct {
		override, key, words string
		unsupported          bool
	}{
		{old + ".path=", old + ".path", "there is nothing to read", false},
		{old + ".schema_type=dpo", old + ".schema_type", "rows of schema dpo cannot join rollouts; use experience", false},
		{old + ".storage_type=queue", old + ".storage_type", "a dataset, not a queue", false},
		{old + ".storage_type=sql", old + ".path", "want sqlite:///file.db", false},
		{old + ".storage_type=redis", old + ".storage_type", "use queue, which keeps a log on disk, or sql", false},
		{old + ".replay_buffer.enable=true", old + ".replay_buffer.enable", "replay", true},
		{old + ".format.image_key=i", old + ".format.image_key", "image", true},
		{old + ".format.packing=true", old + ".format.packing", "each a sequence of its own", false},
		{old + ".format.enable_concatenated_multi_turn=true", old + ".format.enable_concatenated_multi_turn", "is for schema sft", false},
		{old + ".batch_size=0", old + ".batch_size", "must be at least 1", false},
		{old + ".data_selector.selector_type=shufle", old + ".data_selector.selector_type", `"shuffle"`, false},
		{old + ".data_selector={selector_type: difficulty_based, feature_keys: [a, b]}", old + ".data_selector.selector_type",
			"learns from rewards", false},
		{inputsKey + "={a/b: {path: p}}", inputsKey + ".a/b", "is not a plain name", false},
		{inputsKey + "={train: {path: p}}", inputsKey + ".train", "a taskset is called train too", false},
		{"data_processor.experience_pipeline.output_save_path=./old.parquet", old + ".path", "this run writes its own copy of experiences there", false},
		{"data_processor.experience_pipeline.input_save_path=old.parquet", old + ".path", "this run writes its own copy of experiences there", false},
		{"buffer.trainer_input.experience_buffer.batch_size=2", "buffer.trainer_input.experience_buffer.batch_size",
			"use buffer.train_batch_size", false},
	} {
		t.Run(c.override, func(t *testing.T) { expectError(t, joinedBase, c.override, c.key, c.words, c.unsupported) })
	}
}
