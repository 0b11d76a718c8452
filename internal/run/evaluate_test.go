package run_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/trace"
)

// An evaluation that is run again finds the numbers that the run itself found, also at a temperature. It writes to
// its own directory, and has a line for each answer.
func TestAnEvaluationIsRunAgain(t *testing.T) {
	for name, overrides := range map[string][]string{
		"all weights": nil,
		"lora":        {"model.lora_configs=[{lora_rank: 4, lora_alpha: 4}]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			if _, err := p.run(t, append(overrides, "trainer.save_hf_checkpoint=always")...); err != nil {
				t.Fatal(err)
			}
			want := curve(t, p.job(), "explorer", "eval/few/accuracy/mean@2")
			before := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
			var said []string
			for step, value := range map[int]float64{4: want[len(want)-2], 8: want[len(want)-1]} {
				var answers []trace.Evaluated
				keep := func(rows []trace.Evaluated) error {
					answers = append(answers, rows...)
					return nil
				}
				o := run.EvaluateOptions{Dir: t.TempDir(), Answers: keep, Say: func(line string) { said = append(said, line) }}
				if step == 4 { // 8 is the newest
					o.Model, o.Tasksets = filepath.Join(p.job(), "global_step_4"), []string{"few"}
				}
				m, err := run.Evaluate(t.Context(), p.load(t, overrides...), o)
				if err != nil {
					t.Fatal(err)
				}
				if got := m["few/accuracy/mean@2"]; step == 8 && got != value {
					t.Errorf("step %d: %v, and the run found %v", step, got, value)
				}
				sum, n := 0.0, len(answers)
				for _, a := range answers {
					if a.Taskset != "few" || a.Truth == "" || a.Reward == nil || a.Run == nil || a.ResponseTokens == 0 {
						t.Fatalf("%+v", a)
					}
					sum += *a.Reward
				}
				if mean := sum / float64(n); math.Abs(mean-m["few/reward/mean@2"]) > 1e-9 || n < 4 {
					t.Errorf("step %d: %d answers have the mean reward %v, and the metrics %v", step, n, mean, m["few/reward/mean@2"])
				}
			}
			if after := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")); after != before {
				t.Error("the evaluation wrote into the run's metrics")
			}
			if text := fmt.Sprint(said); !strings.Contains(text, "evaluates "+filepath.Join(p.job(), "global_step_8")) {
				t.Errorf("said %s", text)
			}
		})
	}
}

// The model that a stage begins with is the newest of the stage before, also if that has not finished.
func TestAStageThatHasNotBegunIsEvaluated(t *testing.T) {
	for name, overrides := range map[string][]string{"all weights": nil, "lora": {"model.lora_configs=[{lora_rank: 4, lora_alpha: 4}]"}} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, tiny, stagesOfAdapters)
			overrides = append(overrides, "stages.1.buffer.explorer_input.eval_tasksets=[{name: few, path: "+filepath.ToSlash(p.dir)+
				"/eval.jsonl, format: {prompt_key: question, response_key: answer}}]")
			if _, err := run.Run(t.Context(), t.Context(), p.load(t, overrides...), run.Options{Say: func(string) {}, Stage: "warmup"}); err != nil {
				t.Fatal(err)
			}
			for _, steps := range []string{"2", "9"} { // 9: the stage has not finished
				var said string
				o := run.EvaluateOptions{Dir: t.TempDir(), Say: func(line string) { said += line + "\n" }}
				m, err := run.Evaluate(t.Context(), p.load(t, append(overrides, "stages.0.buffer.total_steps="+steps)...), o)
				want := "evaluates " + filepath.Join(p.job(), "warmup", "global_step_2") + "\n"
				if _, ok := m["few/accuracy/mean@1"]; err != nil || !ok || !strings.Contains(said, want) {
					t.Errorf("%s steps: %v, %v, and the run says %q, want %q", steps, m, err, said, want)
				}
			}
		})
	}
}

func TestEvaluateRefuses(t *testing.T) {
	p := newProject(t, tiny, rl)
	o := run.EvaluateOptions{Tasksets: []string{"many"}, Dir: t.TempDir(), Say: func(string) {}}
	_, err := run.Evaluate(t.Context(), p.load(t), o)
	oneLine(t, err, "--taskset many", "few")
	_, err = run.Evaluate(t.Context(), p.load(t, "buffer.explorer_input.eval_tasksets=[]"), o)
	oneLine(t, err, "no evaluation taskset", "buffer.explorer_input.eval_tasksets")
}
