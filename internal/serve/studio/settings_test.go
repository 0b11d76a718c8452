package studio

import "testing"

// The column of algorithms says what an algorithm is, whose parts are not its own.
func TestAlgorithmOfSettings(t *testing.T) {
	for text, want := range map[string]string{
		"{algorithm_type: grpo}":                                           "grpo",
		"{algorithm_type: grpo, advantage_fn: rloo}":                       "grpo · advantage rloo",
		"{algorithm_type: grpo, advantage_fn: grpo}":                       "grpo",
		"{algorithm_type: grpo, advantage_fn: rloo, policy_loss_fn: gspo}": "grpo · advantage rloo · policy loss gspo",
		"{algorithm_type: grpo, kl_loss_fn: none}":                         "grpo · kl loss none",
		"{algorithm_type: grpo, kl_penalty_fn: none}":                      "grpo",
		"{algorithm_type: grpo, sample_strategy: default}":                 "grpo",
		"{algorithm_type: grpo, optimizer: {lr: 1}}":                       "grpo",
		"{algorithm_type: own, advantage_fn: rloo}":                        "own · advantage rloo",
		"{}": "ppo",
	} {
		set, err := parseSettings([]byte("algorithm: " + text))
		if got := set.algorithm(); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestTasksetsOfSettings(t *testing.T) {
	for text, want := range map[string]int{
		"{}": 0,
		"{explorer_input: {taskset: {path: t}, eval_tasksets: [{name: a, path: a}]}}":                                 1,
		"{explorer_input: {eval_tasksets: [{name: a, path: a}, {path: b}]}}":                                          2,
		"{explorer_input: {eval_tasksets: [{path: a}]}, trainer_input: {eval_buffers: {c: {path: c}, d: {path: d}}}}": 3,
	} {
		set, err := parseSettings([]byte("buffer: " + text))
		if got := set.tasksets(); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
}
