package reward

import (
	"os/exec"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	fake, python := service(t), findingPython(t)
	argsOf := map[string]map[string]any{ // required arguments, and arguments that cause the most work
		"pattern_reward": {"pattern": `(a+)+(?P<answer>\d+)b`}, "json_reward": {"keys": []any{"a"}},
		"format_reward": {"pattern": `(x+x+)+y`}, "math_boxed_reward": {"with_think": true},
		"reward_model":         {"model_path": "not opened"},
		"json_schema_reward":   {"answer_score": 1, "schema": map[string]any{"properties": map[string]any{"a": map[string]any{"$ref": "#"}}}},
		"code_reward":          {"isolation": "none"},
		"wasm":                 {"module": emptyModule(t)},
		"python":               own(t, "number", nil, map[string]any{"weight": 1}),
		"reasoning_gym_reward": {"python": python}, "verifiers_reward": {"python": python},
		"exec": {"command": []any{"true"}}, "http": {"url": fake, "max_retry_times": 0},
		"judge_reward": {"judge": "none"}, "ruler_reward": {"judge": "none"},
		"grader_reward": {"grader": map[string]any{"type": "text_similarity", "input": "{{ sample.output_text }}",
			"reference": "{{ item.answer }}", "evaluation_metric": "fuzzy_match"}},
		"hybrid_reward":    hybridOf("f + 1", part("format_reward", "name", "f")),
		"weighted_reward":  weightedOf(part("format_reward"), part("json_reward", "args", map[string]any{"keys": []any{"a"}})),
		"math_dapo_reward": {"enable_overlong_penalty": true, "max_response_length": 4, "cache_length": 3},
	}
	for _, name := range registry.Rewards.Names() {
		t.Run(name, func(t *testing.T) {
			fresh := func() trinity.RewardFunc { return build(t, name, argsOf[name]) }
			if argsOf[name]["python"] != nil { // each one that is built starts a process
				one := fresh()
				fresh = func() trinity.RewardFunc { return one }
			}
			trinitytest.Reward(t, fresh)
		})
	}
}

// findingPython is an interpreter that finds every module and does nothing else.
func findingPython(t *testing.T) string {
	path, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	return path
}
