package config

import (
	"fmt"
	"strings"
	"testing"
)

// mixedBase trains on rollouts and demonstrations.
var mixedBase = strings.Replace(base, "algorithm_type: grpo", "algorithm_type: mixing", 1) + `  trainer_input:
    auxiliary_buffers:
      sft_dataset:
        path: sft.jsonl
        total_epochs: 3
`

func TestAuxiliaryBuffers(t *testing.T) {
	c := mustParse(t, mixedBase, Options{Overrides: []string{auxiliaryKey + ".sft_dataset.task_selector={selector_type: shuffle}",
		auxiliaryKey + ".sft_dataset.capacity=3"}})
	all := c.settled[0].Data.Auxiliary
	if len(all) != 1 || all[0].Name != "sft_dataset" || all[0].SchemaType != "sft" || all[0].StorageType != "file" ||
		all[0].DataSelector.SelectorType != "shuffle" {
		t.Errorf("%+v", all)
	}
	if c.settled[0].Batch.Train != 32 || c.settled[0].Batch.Rollouts != 24 || mustParse(t, base).settled[0].Batch.Rollouts != 8 {
		t.Errorf("%d rollouts of a batch of %d", c.settled[0].Batch.Rollouts, c.settled[0].Batch.Train)
	}
	if notes := c.settled[0].Unused(); len(notes) != 1 || notes[0].Key != auxiliaryKey+".sft_dataset.capacity" {
		t.Errorf("%+v", notes)
	}
	p, err := c.Plan(Facts{Rows: map[string]int{"buffer.explorer_input.taskset": 12, all[0].Key: 50},
		Missing: map[string]string{all[0].Key + ".path": "sft.jsonl"}})
	if err != nil {
		t.Fatal(err)
	}
	const words = "reads        auxiliary buffer sft_dataset (sft): sft.jsonl, 50 rows, total_epochs 3\n"
	if s := p.Stages[0]; s.ExploreSteps != 3 || s.TrainSteps != 4 ||
		len(planned[[]string](s, "missing")) != 1 || !strings.Contains(p.String(), words) {
		t.Errorf("%d steps of 4 × 8 rollouts, %d of 24\n%s", s.ExploreSteps, s.TrainSteps, p)
	}
}

// A run that does not train leaves the auxiliary buffers to another process.
func TestAuxiliaryBuffersOfAnExplorer(t *testing.T) {
	c := mustParse(t, mixedBase, Options{Overrides: []string{"mode=explore", auxiliaryKey + "={other: {}}"}})
	if len(c.settled[0].Data.Auxiliary) != 0 {
		t.Errorf("%+v", c.settled[0].Data.Auxiliary)
	}
	if notes := fmt.Sprint(mustParse(t, mixedBase, Options{Overrides: []string{"mode=explore"}}).settled[0].Unused()); !strings.Contains(notes, "only the trainer reads it") {
		t.Error(notes)
	}
}

func TestRefusedSampleStrategies(t *testing.T) {
	const buffer = auxiliaryKey + ".sft_dataset"
	for _, c := range []struct {
		text, override, key, words string
		unsupported                bool
	}{
		{base, "algorithm.sample_strategy=mix", "algorithm.sample_strategy",
			`reads the auxiliary buffer "sft_dataset", which does not exist; add ` + buffer, false},
		{base, auxiliaryKey + "={sft: {path: p}}", auxiliaryKey + ".sft", "sample_strategy default does not read it", false},
		{mixedBase, "algorithm.sample_strategy_args.sft_dataset_name=sft", "algorithm.sample_strategy_args",
			`"sft", which does not exist; there is sft_dataset`, false},
		{mixedBase, "algorithm.sample_strategy_args.sft_dataset=sft", "algorithm.sample_strategy_args.sft_dataset", "sft_dataset_name", false},
		{mixedBase, "algorithm.sample_strategy_args.expert_data_ratio=1", "buffer.train_batch_size",
			"is 32, and sample_strategy mix leaves no rollout of it", false},
		{mixedBase, actorKey + ".ppo_mini_batch_size=3", actorKey + ".ppo_mini_batch_size",
			"of the 32 experiences of a train step 8 are demonstrations, too few for its 11 optimizer steps; set it to 4 or more", false},
		{strings.Replace(mixedBase, "algorithm_type: mixing", "algorithm_type: mixing\n  sample_strategy_args: {expert_data_ratio: 0.875}", 1),
			actorKey + ".ppo_mini_batch_size=6", actorKey + ".ppo_mini_batch_size",
			"4 are rollouts, too few for its 6 optimizer steps; set it to 8 or more", false},
		{mixedBase, buffer + ".path=", buffer + ".path", "needs a dataset", false},
		{mixedBase, buffer + ".storage_type=queue", buffer + ".storage_type", "a dataset, not a queue", false},
		{mixedBase, buffer + ".schema_type=dpo", buffer + ".schema_type", `is "dpo", but sample_strategy mix reads "sft"`, false},
		{mixedBase, buffer + ".data_selector={selector_type: shufle}", buffer + ".data_selector.selector_type", `"shuffle"`, false},
		{mixedBase, buffer + ".data_selector={kwargs: {tua: 1}}", buffer + ".data_selector.kwargs.tua", "tau", false},
		{mixedBase, buffer + ".storage_type=sql", buffer + ".path", "want sqlite:///file.db", false},
		{mixedBase, buffer + ".total_steps=4", buffer + ".total_steps", "use total_epochs", true},
		{mixedBase, buffer + ".replay_buffer.enable=true", buffer + ".replay_buffer.enable", "replay", true},
		{mixedBase, buffer + ".format.packing=true", buffer + ".format.packing", "packed", true},
		{mixedBase, buffer + ".format.image_key=i", buffer + ".format.image_key", "image", true},
		{offlineBase, "algorithm.sample_strategy=staleness_control", "algorithm.sample_strategy",
			"chooses among rollouts, and sft trains on a dataset", false},
		{base, "algorithm.sample_strategy=warmup", "algorithm.sample_strategy", "make the warm-up a stage of its own", false},
		{base, "algorithm.sample_strategy=stalenes_control", "algorithm.sample_strategy", `did you mean "staleness_control"`, false},
		{base, "algorithm.sample_strategy_args.max_staleness=few", "algorithm.sample_strategy_args", "", false},
	} {
		t.Run(c.override, func(t *testing.T) {
			if c.words == "" {
				c.key += ".max_staleness"
			}
			expectError(t, c.text, c.override, c.key, c.words, c.unsupported)
		})
	}
}
