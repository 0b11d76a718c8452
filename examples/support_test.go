package examples

import "testing"

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

func supportTable(r results) map[string]string {
	return map[string]string{"measured": measuredAt(r.Commit) + head("questions", "right before → after `rl`") +
		"| 80 of training, temperature 1, first → last ten steps | " + change(r.Values["trained"]) + " |\n" +
		"| 20 of the test, greedy | " + change(r.Values["test"]) + " |\n"}
}
