package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// The schema of the rows decides which format keys make sense.
func TestFormatRules(t *testing.T) {
	const key, tasksetFormat = "buffer.trainer_input.experience_buffer.format", "buffer.explorer_input.taskset.format"
	for _, c := range []struct{ algorithm, format, key, words string }{
		{"sft", "{packing: true}", key + ".packing", "sft reads schema sft, in which every row is a sequence of its own; remove it"},
		{"dpo", "{enable_concatenated_multi_turn: true}", key + ".enable_concatenated_multi_turn", "is for schema sft, but dpo reads schema dpo"},
		{"cpt", "{prompt_type: messages}", key + ".prompt_type", "which is plain text; set it to plaintext"},
		{"sft", "{prompt_type: plaintext, prompt_template: '{a'}", key + ".prompt_template", "a { without its }: write {{ for a brace"},
		{"sft", "{prompt_template: '{a}'}", key + ".prompt_template", "prompt_type is messages; set prompt_type: plaintext"},
		{"sft", "{system_template: '{a}', system_prompt: b}", key + ".system_template", "system_prompt or system_prompt_key is set as well"},
		{"cpt", "{packing: true, truncate: true}", key + ".truncate", "packed texts are never truncated"},
	} {
		_, err := parse(t, offlineBase, Options{Overrides: []string{"algorithm.algorithm_type=" + c.algorithm, key + "=" + c.format}})
		if err == nil || !strings.Contains(err.Error(), c.key+": ") || !strings.Contains(err.Error(), c.words) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v", c.algorithm, c.format, err)
		}
	}
	expectError(t, base, tasksetFormat+"={truncate: true}", tasksetFormat, "not for tasks", false)
	expectError(t, base, tasksetFormat+"={prompt_template: '{a}}'}", tasksetFormat+".prompt_template", "a } without its {", false)
	expectError(t, base, "algorithm.algorithm_type=dpo", "algorithm.algorithm_type",
		"dpo trains on a dataset and does not roll out; set mode: train", false)
	expectError(t, mixedBase, auxiliaryKey+".sft_dataset.format.packing=true", auxiliaryKey+".sft_dataset.format.packing",
		"this buffer holds sft rows", false)
	c := mustParse(t, offlineBase, Options{Overrides: []string{"algorithm.algorithm_type=cpt", key + "={packing: true}"}})
	if f := c.Buffer.TrainerInput.ExperienceBuffer.Format; f.PromptType != "plaintext" || !f.Packing {
		t.Errorf("%+v", f)
	}
	plan := planner{run: c.settled[0], facts: Facts{Rows: map[string]int{"buffer.trainer_input.experience_buffer": 9}}}
	if n, why := plan.offlineSteps(); n != 0 || !strings.Contains(why, "packed into sequences of 16 tokens") {
		t.Errorf("%d steps: %s", n, why)
	}
}

// train_batch_size counts pairs, and the engine computes two sequences for each. A micro-batch
// holds at least one pair.
func TestPairsCountTwice(t *testing.T) {
	for algorithm, want := range map[string]int{"dpo": 2, "kto": 1, "sft": 1} {
		c := mustParse(t, offlineBase, Options{Overrides: []string{"algorithm.algorithm_type=" + algorithm, "trainer.max_token_len_per_gpu=10",
			"buffer.total_epochs=2"}})
		p, err := c.Plan(Facts{Rows: map[string]int{"buffer.trainer_input.experience_buffer": 10}})
		if err != nil {
			t.Fatal(err)
		}
		s := p.Stages[0]
		if c.settled[0].Batch.PerRow != want || planned[int](s, "experiences_per_step") != 4*want ||
			s.TrainSteps != 5 || planned[int](s, "optimizer_steps") != 1 ||
			planned[int64](s, "tokens_per_step") != int64(4*want*16) || c.settled[0].Batch.MicroTokens != want*16 {
			t.Errorf("%s: %+v", algorithm, s)
		}
	}
}

func TestUsesReference(t *testing.T) {
	for override, want := range map[string]bool{
		"algorithm={algorithm_type: dpo, kl_loss_fn: none}": true, "algorithm={algorithm_type: kto}": true,
		"algorithm={algorithm_type: sft}":                 false,
		"algorithm={algorithm_type: sft, kl_loss_fn: k2}": true,
	} {
		if got := mustParse(t, offlineBase, Options{Overrides: []string{override}}).settled[0].Method.Reference; got != want {
			t.Errorf("%s: %t", override, got)
		}
	}
	if got := policyNeeds(&trinity.Algorithm{PolicyLoss: "of another program"}); got.Reference {
		t.Error(got)
	}
}

// Offline, nobody waits for weights: the file needs no synchronizer section, and Unused lists one
// that is there.
func TestOfflineRunsWaitForNoWeights(t *testing.T) {
	c := mustParse(t, offlineBase, Options{Overrides: []string{"algorithm.algorithm_type=dpo", "synchronizer.sync_interval=30"}})
	if notes := c.settled[0].Unused(); len(notes) != 1 || notes[0].Key != "synchronizer.sync_interval" ||
		notes[0].Reason != "nobody samples while dpo trains on a dataset" {
		t.Errorf("%+v", notes)
	}
}

func TestRereadsDataset(t *testing.T) {
	for override, want := range map[string]bool{
		"buffer.total_epochs=1": false, "buffer.total_epochs=2": true, "buffer.total_steps=3": true, "trainer.total_steps=3": true,
		"buffer.trainer_input.experience_buffer.total_epochs=2": true,
	} {
		if got := mustParse(t, offlineBase, Options{Overrides: []string{override}}).settled[0].Batch.Rereads; got != want {
			t.Errorf("%s: %t", override, got)
		}
	}
	if mustParse(t, base, Options{Overrides: []string{"buffer.total_epochs=2"}}).settled[0].Batch.Rereads {
		t.Error("rollouts come once")
	}
}

// Mode train reads a file of experiences as a dataset only for an algorithm that trains on
// rollouts. The file of another algorithm is its own dataset, and a queue belongs to explorers.
func TestRecorded(t *testing.T) {
	train := []string{"mode=train", "buffer.train_batch_size=4", "algorithm.optimizer.lr_scheduler_type=cosine"}
	file := append(slices.Clone(train), storeKey+".storage_type=file")
	cfg, err := Parse("c.yaml", []byte(base), Options{Overrides: append(file, storeKey+".path=kept.parquet", "synchronizer.sync_interval=3")})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cfg.Plan(Facts{Rows: map[string]int{storeKey: 40}})
	if err != nil || plan.Stages[0].TrainSteps != 10 {
		t.Errorf("%d train steps, %v; want 40 rows / 4", plan.Stages[0].TrainSteps, err)
	}
	if !slices.Contains(cfg.settled[0].Sources(), storeKey+".path") || len(cfg.settled[0].Unused()) != 1 {
		t.Errorf("sources %v, unused %v", cfg.settled[0].Sources(), cfg.settled[0].Unused())
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: file})
	if err == nil || !strings.Contains(err.Error(), "grpo needs a dataset") {
		t.Errorf("without a path: %v", err)
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: []string{"mode=explore", storeKey + ".storage_type=file",
		storeKey + ".path=kept.db"}})
	if err == nil || !strings.Contains(err.Error(), "kept.db does not name a file form of experiences") {
		t.Errorf("a file of no form: %v", err)
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: []string{"mode=explore", storeKey + ".storage_type=file",
		storeKey + ".path=a.jsonl", pipelineKey + ".output_save_path=./a.jsonl"}})
	if err == nil || !strings.Contains(err.Error(), storeKey+".path: is also the path of input_save_path or output_save_path") {
		t.Errorf("rollouts at the path of a copy: %v", err)
	}
	database := append(slices.Clone(file), storeKey+".path=postgresql://ann@host/rft")
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: database})
	if err == nil || !strings.Contains(err.Error(), "write SELECT experience FROM trinity_archive") {
		t.Errorf("a database without saying which rows: %v", err)
	}
	cfg, err = Parse("c.yaml", []byte(base), Options{Overrides: append(database, storeKey+".subset_name=trinity_archive",
		storeKey+".max_retry_times=5", "buffer.total_steps=1")})
	if err != nil || slices.ContainsFunc(cfg.settled[0].Unused(), func(n Note) bool { return strings.HasPrefix(n.Key, storeKey) }) {
		t.Errorf("rows of a database: %v", err)
	}
	_, err = Parse("c.yaml", []byte(base), Options{Overrides: append(train, storeKey+".path=kept.parquet")})
	if err == nil || !strings.Contains(err.Error(), "but their number is not known") {
		t.Errorf("a queue: %v", err)
	}
}
