package run_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/trinitytest"
)

// experts makes the project's model one with experts in its last layer.
func (p project) experts(t *testing.T) {
	t.Helper()
	path := filepath.Join(p.dir, "model", "config.json")
	var shape map[string]any
	if err := json.Unmarshal([]byte(read(t, path)), &shape); err != nil {
		t.Fatal(err)
	}
	shape["model_type"], shape["architectures"] = "qwen3_moe", []string{"Qwen3MoeForCausalLM"}
	shape["num_experts"], shape["num_experts_per_tok"], shape["moe_intermediate_size"], shape["norm_topk_prob"] = 4, 2, 64, true
	shape["mlp_only_layers"], shape["output_router_logits"] = []int{0}, true
	write(t, path, encode(t, shape))
}

func TestFactsOfAModelWithExperts(t *testing.T) {
	p := newProject(t, 2, rl)
	p.experts(t)
	f, err := settle.Facts(p.load(t).Settled()[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Model.Parameters-f.Model.Active, int64(2*3*64*64); got != want {
		t.Errorf("%d parameters, %d of them for a token: %d idle, want %d of two experts", f.Model.Parameters, f.Model.Active, got, want)
	}
	plan, err := p.load(t).Plan(f)
	if err != nil {
		t.Fatal(err)
	}
	if text := plan.String(); !strings.Contains(text, " of them for a token") {
		t.Errorf("the plan does not say how many parameters a token is computed with:\n%s", text)
	}
}

// A model with experts learns from rewards, and its metrics show the load of the experts.
func TestExpertsLearnFromRewards(t *testing.T) {
	trinitytest.Long(t, "trains a model", "internal/run", "engine/cpu")
	yaml := strings.NewReplacer("WARMBATCH", "64", "WARMSTEPS", "60", "WARMSAVE", "60", "RLLR", "2e-3", "RLBATCH", "32", "RLSTEPS",
		"24", "RLSAVE", "24", "RLMINI", "64",
		"WORKFLOW", "simple_workflow", "REWARDARGS", "{pattern: "+
			"'<answer>(?P<answer>[0-9])</answer>'}", "REWARD", "pattern_reward").Replace(staged)
	t.Parallel()
	p := newProject(t, 2, yaml)
	p.experts(t)
	if _, err := p.run(t); err != nil {
		t.Fatal(err)
	}
	stage := filepath.Join(p.job(), "rl")
	accuracy := curve(t, stage, "explorer", "rollout/accuracy/mean")
	first, last := mean(accuracy[:8]), mean(accuracy[len(accuracy)-8:])
	if last < 0.8 || last < first+0.15 {
		t.Errorf("accuracy rose from %.3f to %.3f, want at least 0.8 and 0.15 more", first, last)
	}
	for name, most := range map[string]float64{"actor/router/load_max": 2, "actor/router/load_min": 1, "actor/router/load_entropy": 1,
		"actor/router/aux_loss": 4} {
		values := curve(t, stage, "trainer", name)
		if len(values) == 0 {
			t.Errorf("no %s in the metrics", name)
		}
		for _, v := range values {
			if v < 0 || v > most || name == "actor/router/load_max" && v < 1 {
				t.Errorf("%s is %v, want at most %v", name, v, most)
			}
		}
	}
}

// The check of a configuration says that a dense model has no experts, and names the key that is set.
func TestADenseModelHasNoExperts(t *testing.T) {
	for _, served := range []string{"{}", "{engine_type: vllm, base_urls: ['http://127.0.0.1:1']}"} {
		for _, key := range []string{"algorithm.enable_router_replay", "explorer.rollout_model.enable_return_routed_experts"} {
			p := newProject(t, tiny, servedConfig)
			_, err := settle.Facts(p.load(t, "trainer.trainer_type=auto", "cluster={}", "explorer.rollout_model="+served, key+"=true").Settled()[0])
			oneLine(t, err, key+": a model of type llama has no router that this program knows")
			oneLine(t, err, "; leave it out")
		}
	}
}
