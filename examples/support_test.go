package examples

import (
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tinySupport runs the stages of the support example in seconds, on a model from scratch.
var tinySupport = []string{
	"model.model_path=examples/quickstart/model", "model.init={style: fan_in}", "model.lora_configs=[]", "model.max_prompt_tokens=300",
	"stages.0.buffer.total_steps=2", "stages.0.buffer.train_batch_size=4",
	"stages.1.buffer.total_steps=1", "stages.1.buffer.batch_size=2", "stages.1.algorithm.repeat_times=2",
}

// From tables of questions to a model: demonstrations, then rewards, with evaluations on questions that were not trained on.
func TestSupportQuestionsTrain(t *testing.T) {
	records := runExample(t, "support/support.yaml", tinySupport...)
	for name, want := range map[string]int{
		"actor/final_loss": 3, "rollout/right/mean": 1, "rollout/form/mean": 1, "eval/test/right/mean@1": 2,
	} {
		if got := len(curve(records, name)); got != want {
			t.Errorf("%s has %d values, want %d", name, got, want)
		}
	}
}

// Rewards teach SmolLM2 the questions on which it trains.
func TestSupportOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	t.Chdir("..")
	records := runExampleIn(t, t.TempDir(), "support/support.yaml", "model.model_path="+model)
	trained := tens(curve(records, "rollout/right/mean"))
	if len(trained) != 2 || trained[1] <= trained[0] {
		t.Errorf("the shares of right answers in ten steps are %.3f, want two, and more in the second", trained)
	}
	hold(t, "examples/support", results{Values: map[string][]float64{"trained": trained, "test": curve(records, "eval/test/right/mean@1")}})
}

// The file that trinity init writes for a table of labels teaches SmolLM2 to be right on rows that nothing trained on,
// as docs/guide/own-data.md says. trinity eval finds the share again.
func TestOwnDataOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	t.Chdir("..")
	dir := t.TempDir()
	program := filepath.Join(dir, "trinity")
	data, err := filepath.Abs("examples/support/data/train.csv")
	if err != nil {
		t.Fatal(err)
	}
	do := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		if name == program {
			cmd.Dir = dir
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	do("go", "build", "-o", program, "./cmd/trinity")
	do(program, "init", "my_shop.yaml", "--model", model, "--data", data, "--task", "label")
	share := func(args ...string) float64 {
		t.Helper()
		out := do(program, append([]string{"eval", "--config", "my_shop.yaml"}, args...)...)
		m := regexp.MustCompile(`(?m)^test/accuracy/mean@1 +([0-9.]+)$`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("trinity eval prints %s", out)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	do(program, "run", "--config", "my_shop.yaml", "--quiet")
	held := curve(records(t, filepath.Join(dir, "checkpoints/trinity/my_shop/rl/monitor/metrics.jsonl")), "eval/test/accuracy/mean@1")
	before, end := share("--model", model, "--output", "before.jsonl"), slices.Max(held[1:]) // keep_best
	if end < 0.8 || end < before+0.5 {
		t.Errorf("right answers to held-out questions rose from %.3f to %.3f, want at least 0.8 and 0.5 more", before, end)
	}
	if again := share(); math.Abs(again-end) > 1e-4 {
		t.Errorf("trinity eval finds %v, and the run found %v", again, end)
	}
	hold(t, "examples/support/init", results{Values: map[string][]float64{"held out": {before, held[0], end}}})
}

// ownDataTable is what a run of the file of trinity init learns.
func ownDataTable(r results) map[string]string {
	return map[string]string{"own data": measuredAt(r.Commit) + head("evaluated greedily", "right: untrained → after `warmup` → after `rl`") +
		"| the 15 questions of `my_shop_test.jsonl` | " + strings.ReplaceAll(shares(r.Values["held out"]), " ", " → ") + " |\n"}
}

func supportTable(r results) map[string]string {
	return map[string]string{"measured": measuredAt(r.Commit) + head("questions", "right before → after `rl`") +
		"| 80 of training, temperature 1, first → last ten steps | " + change(r.Values["trained"]) + " |\n" +
		"| 20 of the test, greedy | " + change(r.Values["test"]) + " |\n"}
}
