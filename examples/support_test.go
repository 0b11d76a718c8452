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
