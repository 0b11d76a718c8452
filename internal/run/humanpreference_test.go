package run_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// comparing has Trinity-RFT's example of people in the loop, but for the model and the addresses.
const comparing = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
mode: train
data_processor:
  task_pipeline:
    num_process: 1
    operators:
      - name: "human_preference_annotation_mapper"
        args:
          project_name_prefix: "Human_Preference_Annotation_Demo"
          wait_for_annotations: true
          timeout: 3600
          poll_interval: 10
          max_tasks_per_batch: 10
          notification_config:
            enabled: false
          api_url: "SERVER"
          api_key: "KEY"
          prompt_key: "prompt"
          answer1_key: "answer1"
          answer2_key: "answer2"
          chosen_key: "chosen"
          rejected_key: "rejected"
    inputs:
      - 'DIR/answers.jsonl'
    target_fields: ["prompt"]
service:
  data_juicer:
    auto_start: true # nothing is to be started: the operator is built in
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 12}
algorithm: {algorithm_type: dpo, kl_loss_fn: k1, kl_loss_fn_args: {kl_coef: 0.1}, optimizer: {lr: 5e-4}}
buffer:
  total_epochs: 2
  train_batch_size: 6
  trainer_input:
    experience_buffer:
      name: dpo_buffer
      storage_type: file
      path: DIR/outputs/human_annotation_output/
      format: {prompt_type: plaintext, prompt_key: prompt, chosen_key: chosen, rejected_key: rejected}
monitor: {monitor_type: jsonl}
`

// People compare answers in Label Studio. The run waits for them and learns which answers they
// prefer.
func TestARunLearnsWhatPeoplePrefer(t *testing.T) {
	ls := trinitytest.NewLabelStudio(t)
	ls.Registered = func() {
		ls.Say(func(data map[string]any) string {
			if data["answer1"] == "good" {
				return "left"
			}
			return "right"
		})
	}
	p := newProject(t, tiny, strings.NewReplacer("SERVER", ls.URL, "KEY", trinitytest.Key).Replace(comparing))
	var rows strings.Builder
	for i := range 12 {
		rows.WriteString(encode(t, map[string]any{"prompt": fmt.Sprint("question ", i), "answer1": []string{"good", "bad"}[i%2],
			"answer2": []string{"bad", "good"}[i%2]}))
	}
	write(t, filepath.Join(p.dir, "answers.jsonl"), rows.String())
	if _, err := p.run(t); err != nil {
		t.Fatal(err)
	}
	made := read(t, filepath.Join(p.dir, "outputs", "human_annotation_output", "output.jsonl"))
	if n := strings.Count(made, `"chosen":"good"`); n != 12 || strings.Count(made, `"rejected":"bad"`) != 12 {
		t.Errorf("it made %s", made)
	}
	if losses := curve(t, p.job(), "trainer", "actor/dpo_loss"); len(losses) != 4 {
		t.Errorf("losses of %d steps, want 2 epochs of 2", len(losses))
	}
}
