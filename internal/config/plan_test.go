package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files")

// golden compares with a file under testdata, which -update writes.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date; go test ./internal/config -update writes it\n%s", path, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is the beginning of the other"
}

// planned returns a value of the JSON of a stage; the zero value if there is none.
func planned[T any](s *StagePlan, key string) (v T) {
	for _, one := range s.values {
		if one.key == key {
			return one.value.(T)
		}
	}
	return v
}

var tiny = ModelFacts{Known: true, Parameters: 428_672, Trained: 428_672}

func TestPlanText(t *testing.T) {
	c := mustParse(t, staged, Options{Overrides: []string{"cluster.node_num=1", "synchronizer.sync_method=online"}})
	p, err := c.Plan(Facts{Model: tiny, Machine: Machine{Cores: 2, Memory: 4 << 30, Disk: 1 << 20},
		Time: &TimeFacts{Explore: 3, Train: 2, Evaluation: 100, Lengths: "prompts of 7 tokens", Faster: []string{"a key: −20 %"},
			Parts: []TimePart{{"rollouts", 3}, {"gradient", 2}}},
		Memory: []MemoryPlan{{Kind: "weights", Bytes: 1_714_688, Why: "float32"},
			{Kind: "gradient", Bytes: 1_714_688, Why: "float32, of what is trained"}},
		Rows:  map[string]int{"buffer.trainer_input.experience_buffer": 1000, "buffer.explorer_input.taskset": 10},
		Fetch: map[string]string{"model.model_path": "m"}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "plan.golden"), filepath.ToSlash(p.String()))
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "plan.json"), strings.ReplaceAll(string(text), `\\`, "/")+"\n")
}

func TestPlanNamesTheLimitsOfRollouts(t *testing.T) {
	c := mustParse(t, staged, Options{Overrides: []string{"cluster.node_num=1", "synchronizer.sync_method=online",
		"stages.1.explorer.turn_timeout=90", "stages.1.explorer.reward_timeout=0.5", "stages.1.explorer.max_rollout_tokens=4096"}})
	p, err := c.Plan(Facts{Model: tiny})
	if err != nil {
		t.Fatal(err)
	}
	const want = "\n  limits       a call of a model takes at most 1m30s; a reward function takes at most 0.5s; " +
		"the policy writes at most 4,096 tokens in a rollout\n"
	if got := p.String(); strings.Count(got, "  limits ") != 1 || !strings.Contains(got, want) {
		t.Errorf("the plan is\n%s", got)
	}
}

func TestPlanNumbers(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"trainer.trainer_config.actor_rollout_ref.actor={ppo_mini_batch_size: 3, ppo_epochs: 2}",
		"algorithm.kl_loss_fn=none", "buffer.total_epochs=2", "explorer.runner_per_model=1", "trainer.max_token_len_per_gpu=10"}})
	p, err := c.Plan(Facts{Model: tiny, Machine: Machine{Memory: 1 << 20}, DoesNotFit: "needs more",
		Memory: []MemoryPlan{{Kind: "weights", Bytes: 2 << 20, Why: "float32"}, {Kind: "KV cache", Bytes: 3 << 20, Why: "tokens"},
			{Kind: "weights", Bytes: 9 << 20, Device: "each GPU", Free: 8 << 20}},
		Rows: map[string]int{"buffer.explorer_input.taskset": 10}})
	if err != nil {
		t.Fatal(err)
	}
	s := p.Stages[0]
	if s.ExploreSteps != 5 || s.TrainSteps != 5 || planned[int](s, "optimizer_steps") != 6 ||
		planned[int64](s, "tokens_per_step") != 8*16 {
		t.Errorf("%+v", s)
	}
	if s.MemorySum != 5<<20 || planned[int](s, "micro_batch_tokens") != 16 ||
		p.Fits() == nil || p.Fits().Error() != "needs more" ||
		!strings.Contains(p.String(), "MORE than the 1.0 MiB") ||
		!strings.Contains(p.String(), "each GPU     about 9.0 MiB, MORE than the 8.0 MiB") {
		t.Errorf("%+v, %v\n%s", s, p.Fits(), p)
	}
}

// Of 5 explore steps with 8 rollouts each.
func TestTrainSteps(t *testing.T) {
	for _, k := range []struct {
		overrides []string
		want      int64
	}{
		{nil, 5},
		{[]string{"buffer.train_batch_size=8"}, 5},
		{[]string{"buffer.train_batch_size=4"}, 10},
		{[]string{"buffer.train_batch_size=3"}, 14},
		{[]string{"buffer.train_batch_size=1000"}, 5}, // takes what there is
		{[]string{"buffer.train_batch_size=1000", "trainer.total_steps=3"}, 3},
	} {
		if got := mustParse(t, base, Options{Overrides: k.overrides}).settled[0].TrainSteps(5); got != k.want {
			t.Errorf("%v: %d train steps, want %d", k.overrides, got, k.want)
		}
	}
}

// Without an explorer, the smaller of the two numbers of steps holds.
func TestTheSmallerNumberOfStepsHolds(t *testing.T) {
	for _, k := range []struct {
		overrides []string
		want      string
	}{
		{[]string{"buffer.total_steps=2", "trainer.total_steps=200"},
			"train        2 steps of 8 experiences, 1 optimizer step each (as set by buffer.total_steps)"},
		{[]string{"buffer.total_steps=200", "trainer.total_steps=3"},
			"train        3 steps of 8 experiences, 1 optimizer step each (as set by trainer.total_steps)"},
		{[]string{"trainer.total_steps=4"}, "train        4 steps of 8 experiences, 1 optimizer step each (as set by trainer.total_steps)"},
	} {
		for _, text := range []string{offlineBase, strings.Replace(base, "mode: both", "mode: train", 1)} {
			p, err := mustParse(t, text, Options{Overrides: append(k.overrides, "buffer.train_batch_size=8")}).Plan(Facts{})
			if err != nil || !strings.Contains(p.String(), k.want) {
				t.Errorf("%v: %v; want %q in\n%s", k.overrides, err, k.want, p)
			}
		}
	}
}

func TestPlanOfAShortLastBatch(t *testing.T) {
	for override, want := range map[string]string{
		"buffer.train_batch_size=3":    "train        14 steps of 3 experiences (the last of 1), ",
		"buffer.train_batch_size=4":    "train        10 steps of 4 experiences, ",
		"buffer.train_batch_size=1000": "train        5 steps of 1000 experiences, ",
	} {
		p, err := mustParse(t, base, Options{Overrides: []string{override, "buffer.total_steps=5"}}).Plan(Facts{})
		if err != nil || !strings.Contains(p.String(), want) {
			t.Errorf("%s: %v; want %q in\n%s", override, err, want, p)
		}
	}
}

func TestMicroTokens(t *testing.T) {
	for _, k := range []struct {
		overrides []string
		want      int
	}{
		{nil, 8 * 16},
		{[]string{"trainer.max_token_len_per_gpu=40"}, 40},
		{[]string{"trainer.max_token_len_per_gpu=4"}, 16},
		{[]string{"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=3"}, 48},
	} {
		if got := mustParse(t, base, Options{Overrides: k.overrides}).settled[0].Batch.MicroTokens; got != k.want {
			t.Errorf("%v: %d tokens, want %d", k.overrides, got, k.want)
		}
	}
}

func TestSequences(t *testing.T) {
	group := mustParse(t, base).settled[0].Method.GroupSize
	for _, k := range []struct {
		overrides []string
		want      int
	}{
		{[]string{"explorer.runner_per_model=1"}, group},
		{[]string{"explorer.runner_per_model=1000", "buffer.explorer_input.eval_tasksets=[]"}, mustParse(t, base).Buffer.BatchSize * group},
		{[]string{"explorer.runner_per_model=1000", "buffer.explorer_input.eval_tasksets=[]", "synchronizer.sync_style=fully_async", "explorer.max_inflight_batches=3"}, 3 * mustParse(t, base).Buffer.BatchSize * group},
	} {
		if got := mustParse(t, base, Options{Overrides: k.overrides}).settled[0].Batch.Sequences; got != k.want {
			t.Errorf("%v: %d sequences, want %d", k.overrides, got, k.want)
		}
	}
}

func TestGradientCheckpointing(t *testing.T) {
	const key = "trainer.trainer_config.actor_rollout_ref.model.enable_gradient_checkpointing="
	for value, want := range map[string]bool{"true": true, "false": false} {
		if got := mustParse(t, base, Options{Overrides: []string{key + value}}).settled[0].Batch.Recompute; got != want {
			t.Errorf("%s: %t", value, got)
		}
	}
	if !mustParse(t, base).settled[0].Batch.Recompute {
		t.Error("it is off when nothing is said")
	}
}

func TestCompiled(t *testing.T) {
	const key = "trainer.trainer_config.actor_rollout_ref.actor.use_torch_compile="
	for value, want := range map[string]bool{"true": true, "false": false} {
		if got := mustParse(t, base, Options{Overrides: []string{key + value}}).Trainer.Compiled(); got == nil || *got != want {
			t.Errorf("%s: %v", value, got)
		}
	}
	if got := mustParse(t, base).Trainer.Compiled(); got != nil {
		t.Errorf("it is %t when nothing is said", *got)
	}
}

func TestPlanWithoutFacts(t *testing.T) {
	p, err := mustParse(t, base).Plan(Facts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"unknown number of steps", "whose length is not known yet", "not known before the model is there"} {
		if !strings.Contains(p.String(), words) {
			t.Errorf("no %q in\n%s", words, p)
		}
	}
}

func TestPlanMixture(t *testing.T) {
	const input = "buffer.explorer_input={default_workflow_type: math_workflow, tasksets: [{path: a, name: small, weight: 3}, {path: b, name: big, weight: 1}, {path: c}]}"
	for _, k := range []struct {
		overrides []string
		rows      map[string]int
		want      []string
	}{
		{nil, map[string]int{"0": 40, "1": 100, "2": 4}, // 36 steps of 4 tasks
			[]string{"explore      36 steps of 4 tasks", "(144 tasks × total_epochs 1 / batch_size 4)", "tasks        small: 37.5 % of them, 1.35 for each of its 40 rows",
				"big: 12.5 % of them, 0.18 for each of its 100 rows", "taskset_2: 50.0 % of them, 18.00 for each of its 4 rows"}},
		{[]string{"buffer.explorer_input.tasksets.0.weight=10", "buffer.explorer_input.tasksets.1.weight=10", "buffer.explorer_input.tasksets.2.weight=5", "buffer.total_steps=2"},
			map[string]int{"1": 4}, []string{"small: 40.0 % of them\n", "big: 40.0 % of them, 0.80 for each of its 4 rows", "taskset_2: 20.0 %"}},
		{nil, nil, []string{"small: a share that follows"}},
	} {
		rows := map[string]int{}
		for i, n := range k.rows {
			rows["buffer.explorer_input.tasksets."+i] = n
		}
		p, err := mustParse(t, base, Options{Overrides: append([]string{input}, k.overrides...)}).Plan(Facts{Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range k.want {
			if !strings.Contains(p.String(), words) {
				t.Errorf("%v: no %q in\n%s", k.overrides, words, p)
			}
		}
	}
	if p, _ := mustParse(t, base).Plan(Facts{}); planned[[]string](p.Stages[0], "tasksets") != nil {
		t.Errorf("one taskset is mixed:\n%s", p)
	}
}

// The trainer writes the experience buffer. An explorer writes only a file that it was told to.
func TestPlanOfTheBuffer(t *testing.T) {
	for _, c := range []struct{ text, storage, mode, want string }{
		{base, "queue", "both", "/buffer/experience_buffer"},
		{base, "queue", "explore", ""},
		{base, "file", "explore", "/buffer/experience_buffer.jsonl"},
		{base + "  train_batch_size: 4\n", "queue", "train", "/buffer/experience_buffer"},
		{offlineBase, "file", "train", ""},
	} {
		p, err := mustParse(t, c.text, Options{Overrides: []string{"mode=" + c.mode, storeKey + ".storage_type=" + c.storage}}).Plan(Facts{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range planned[[]FilePlan](p.Stages[0], "files") {
			if at := strings.LastIndex(f.Path, "/buffer/experience_buffer"); at >= 0 {
				got += f.Path[at:]
			}
		}
		if got != c.want {
			t.Errorf("mode %s with a %s writes %q, want %q", c.mode, c.storage, got, c.want)
		}
	}
}

func TestPlanLora(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{"model.lora_configs=[{lora_rank: 4}]"}})
	p, err := c.Plan(Facts{Model: ModelFacts{Known: true, Parameters: 428_672, Trained: 18_432}})
	if err != nil {
		t.Fatal(err)
	}
	if want := "428,672 parameters, 18,432 of them trained"; planned[int64](p.Stages[0], "trainable") != 18_432 ||
		!strings.Contains(p.String(), want) {
		t.Errorf("no %q in\n%s", want, p)
	}
}
