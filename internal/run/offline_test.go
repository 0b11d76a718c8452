package run_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// preferring warms up on demonstrations that answer with either of two digits, and then learns
// which is preferred.
const preferring = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
seed: 3
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 12}
monitor: {monitor_type: jsonl}
stages:
  - stage_name: warmup
    mode: train
    algorithm: {algorithm_type: sft, optimizer: {lr: 5e-3, lr_warmup_steps: 10, lr_scheduler_type: cosine, min_lr_ratio: 0.1,
        betas: [0.9, 0.95]}}
    buffer:
      train_batch_size: 32
      total_steps: 60
      trainer_input:
        experience_buffer: {path: DIR/sft.jsonl, format: {prompt_type: plaintext, prompt_key: question},
            data_selector: {selector_type: shuffle, seed: 1}}
  - stage_name: preferences
    mode: train
    algorithm:
      algorithm_type: ALGORITHM
      policy_loss_fn_args: {beta: 0.1}
      optimizer: {lr: 1e-3, lr_warmup_steps: 5, lr_scheduler_type: cosine, min_lr_ratio: 0.1, betas: [0.9, 0.95]}
    buffer:
      train_batch_size: BATCH
      total_steps: 60
      trainer_input:
        experience_buffer: {path: DIR/ALGORITHM.jsonl, format: {prompt_type: plaintext, prompt_key: question},
            data_selector: {selector_type: shuffle, seed: 1}}
        eval_buffers:
          pairs: {path: DIR/heldout.jsonl, schema_type: dpo, format: {prompt_type: plaintext, prompt_key: question}}
          same: {path: DIR/ALGORITHM.jsonl, format: {prompt_type: plaintext, prompt_key: question}}
    explorer: {eval_interval: 25}
`

// A tiny model that answers with either digit learns from preferences to find the larger one more
// likely, also in held-out questions.
func TestATinyModelLearnsFromPreferences(t *testing.T) {
	trinitytest.Long(t, "trains two models", "internal/run", "algorithm", "internal/trainer")
	for algorithm, batch := range map[string]string{"dpo": "16", "kto": "32"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, 2, strings.NewReplacer("ALGORITHM", algorithm, "BATCH", batch).Replace(preferring))
			summary, err := p.run(t)
			if err != nil {
				t.Fatal(err)
			}
			loss := curve(t, filepath.Join(p.job(), "preferences"), "trainer", "actor/"+algorithm+"_loss")
			if len(loss) != 60 {
				t.Fatalf("%d steps", len(loss))
			}
			before, after := p.preferred(t, summary.Stages[0].Model), p.preferred(t, summary.Stages[1].Model)
			gained := p.gained(t, summary.Stages[0].Model, summary.Stages[1].Model)
			measured := func(name string) []float64 {
				return curve(t, filepath.Join(p.job(), "preferences"), "trainer", "eval/"+name)
			}
			if got := measured("pairs/ranking_accuracy"); len(got) != 4 || math.Abs(got[0]-before) > 1e-9 || math.Abs(got[3]-after) > 1e-9 {
				t.Errorf("chosen answers are the likelier ones in %v of the held-out pairs, want %v at first and %v after step 60", got, before, after)
			}
			if got := measured("pairs/accuracy_mean"); len(got) != 4 || got[0] != 0 || math.Abs(got[3]-gained) > 1e-9 {
				t.Errorf("chosen answers gain more in %v of the held-out pairs, want 0 at first and %v after step 60", got, gained)
			}
			if got := measured("same/" + algorithm + "_loss"); len(got) != 4 || got[0] < loss[0]-0.1 || got[3] > 0.9*got[0] {
				t.Errorf("over all that is learnt from, the loss is %v", got)
			}
			t.Logf("loss %.3f to %.3f, held-out pairs the right way round %.2f to %.2f", mean(loss[:5]), mean(loss[55:]), before, after)
			if mean(loss[55:]) > 0.9*mean(loss[:5]) {
				t.Errorf("the loss went from %.3f to %.3f", mean(loss[:5]), mean(loss[55:]))
			}
			if after < 0.85 || after < before+0.2 {
				t.Errorf("the larger digit is the likelier answer to %.2f of the held-out questions, %.2f before", after, before)
			}
		})
	}
}

// preferred returns the share of held-out pairs whose chosen answer a model finds more likely.
func (p project) preferred(t *testing.T, model string) float64 {
	t.Helper()
	stats := forward(t, model, p.formatted(t, "dpo", "heldout.jsonl"))
	return wins(stats, func(i int) float64 { return total(stats[i]) })
}

// gained returns the share of held-out pairs whose chosen answer gains more log-probability than
// the rejected one from one model to the other.
func (p project) gained(t *testing.T, from, to string) float64 {
	t.Helper()
	pairs := p.formatted(t, "dpo", "heldout.jsonl")
	before, after := forward(t, from, pairs), forward(t, to, pairs)
	return wins(after, func(i int) float64 { return total(after[i]) - total(before[i]) })
}

// wins returns the share of pairs whose first sequence has the higher score.
func wins(stats []trinity.TokenStats, score func(i int) float64) float64 {
	n := 0
	for i := 0; i < len(stats); i += 2 {
		if score(i) > score(i+1) {
			n++
		}
	}
	return float64(n) / float64(len(stats)/2)
}

// formatted returns the rows of a file as experiences to train on.
func (p project) formatted(t *testing.T, schema, file string) (all []*trinity.Experience) {
	t.Helper()
	text, err := renderer.Open(filepath.Join(p.dir, "model"), renderer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keys := trinity.TaskFormat{PromptKey: "question", ResponseKey: "response", ChosenKey: "chosen", RejectedKey: "rejected"}
	format, err := dataset.Formatter(schema, dataset.Format{TaskFormat: keys, PromptType: "plaintext"}, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rowsOf(t, filepath.Join(p.dir, file)) {
		exps, err := format.Format(row)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, exps...)
	}
	return all
}

func total(s trinity.TokenStats) float64 {
	sum := 0.0
	for _, lp := range s.Logprob {
		sum += float64(lp)
	}
	return sum
}

// forward returns the log-probabilities of sequences under a model.
func forward(t *testing.T, model string, exps []*trinity.Experience) []trinity.TokenStats {
	t.Helper()
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		t.Fatal(err)
	}
	opened, err := opener.OpenTrainer(context.Background(), engine.TrainerSpec{ModelPath: model, MicroTokens: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	stats, err := opened.Forward(t.Context(), &trinity.Batch{Experiences: exps, Whole: exps}, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// A model learns texts, one by one or packed. Each packed sequence has the model's length.
func TestATinyModelLearnsTexts(t *testing.T) {
	for _, packing := range []string{"false", "true"} {
		t.Run("packing "+packing, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, strings.ReplaceAll(onDataset, "ALGORITHM", "cpt"))
			if _, err := p.run(t, "buffer.trainer_input.experience_buffer.format.packing="+packing, "buffer.total_steps=40",
				"trainer.save_interval=0"); err != nil {
				t.Fatal(err)
			}
			loss := curve(t, p.job(), "trainer", "actor/sft_loss")
			if len(loss) != 40 || mean(loss[35:]) > 0.5*loss[0] {
				t.Errorf("%d steps, loss %.3f to %.3f", len(loss), loss[0], mean(loss[35:]))
			}
			for i, n := range curve(t, p.job(), "trainer", "response_length/max") {
				if packing == "true" && n != 40+12-1 || packing == "false" && n > 40 {
					t.Errorf("step %d: %v tokens are learnt of the longest sequence", i+1, n)
				}
			}
		})
	}
}

// Epochs of packed texts are counted in sequences before the run begins, so that schedules end with
// the run.
func TestEpochsOfPackedTextsAreCountedFirst(t *testing.T) {
	p := newProject(t, tiny, strings.ReplaceAll(onDataset, "ALGORITHM", "cpt"))
	summary, err := p.run(t, "buffer.trainer_input.experience_buffer.format.packing=true", "buffer.total_steps=null",
		"buffer.total_epochs=2", "buffer.train_batch_size=4")
	if err != nil {
		t.Fatal(err)
	}
	rates := curve(t, p.job(), "trainer", "actor/lr")
	if n := summary.Stages[0].Steps; n < 8 || int(n) != len(rates) || rates[len(rates)-1] > 1.01*5e-3*0.01 {
		t.Errorf("%d steps, last rate %v, want the least", n, rates[len(rates)-1])
	}
}

// A run needs only a dataset and a batch size. A wrong setting is an error before the run opens the
// model.
func TestWrongDatasetsAreErrors(t *testing.T) {
	for _, c := range []struct {
		algorithm, override, want string
	}{
		{"dpo", "buffer.trainer_input.experience_buffer.format.chosen_key=good", `dpo.jsonl:1: no field "good": check the keys`},
		{"kto", "buffer.trainer_input.experience_buffer.format.label_key=verdict", `kto.jsonl:1: no field "verdict"`},
		{"cpt", "buffer.trainer_input.experience_buffer.format.prompt_key=text", `cpt.jsonl:1: no field "text"`},
		{"dpo", "model={model_path: DIR/model, max_model_len: 20}", "tokens, more than model.max_model_len 20: raise it"},
		{"dpo", "algorithm.policy_loss_fn=sft", "policy_loss_fn: sft would imitate the rejected answers"},
		{"dpo", evalBuffers + "={few: {path: DIR/kto.jsonl, format: {prompt_type: plaintext, prompt_key: question}}}",
			evalBuffers + `.few: ` + "DIR" + `/kto.jsonl:1: no field "chosen"`},
		{"dpo", evalBuffers + "={few: {path: DIR/nowhere.jsonl}}", evalBuffers + ".few.path: dataset DIR/nowhere.jsonl: no such file"},
		{"sft", "algorithm.policy_loss_fn=kto", "policy_loss_fn: kto learns from data of schema kto"},
	} {
		p := newProject(t, tiny, strings.ReplaceAll(onDataset, "ALGORITHM", c.algorithm))
		_, err := p.run(t, strings.ReplaceAll(c.override, "DIR", p.dir))
		if err == nil {
			t.Errorf("%s %s: no error", c.algorithm, c.override)
			continue
		}
		oneLine(t, err, strings.ReplaceAll(c.want, "DIR", p.dir))
	}
}

const evalBuffers = "buffer.trainer_input.eval_buffers"

// A wrong row is an error before the run opens the model, wherever it is. Rows that the run does
// not reach may be wrong.
func TestRowsAreCheckedBeforeTheModelIsOpened(t *testing.T) {
	for _, c := range []struct{ algorithm, packing, row, want string }{
		{"dpo", "false", `{"question": "q", "chosen": "` + strings.Repeat("x", 60) + `", "rejected": "r"}`,
			"82 tokens, more than model.max_model_len 52: raise it"},
		{"cpt", "false", `{"question": "q"}`, "question has 1 tokens"},
		{"cpt", "true", `{"question": "q"}`, "question has 1 tokens"},
	} {
		p := newProject(t, tiny, strings.ReplaceAll(onDataset, "ALGORITHM", c.algorithm))
		file, buffer := filepath.Join(p.dir, c.algorithm+".jsonl"), "buffer.trainer_input.experience_buffer."
		text := read(t, file)
		write(t, file, text+c.row+"\n")
		_, err := p.run(t, buffer+"format.packing="+c.packing, "buffer.total_steps=400")
		oneLine(t, err, fmt.Sprintf("%s.jsonl:%d: %s", c.algorithm, strings.Count(text, "\n")+1, c.want))
		if exists(filepath.Join(p.job(), "monitor", rundir.MetricsFile)) {
			t.Error("the run has begun")
		}
		if _, err := p.run(t, buffer+"format.packing="+c.packing, buffer+"data_selector.selector_type=sequential",
			"buffer.total_steps=1"); err != nil {
			t.Errorf("a row that the run does not come to: %v", err)
		}
	}
}

// With format.truncate, a run truncates rows that are too long, and counts them.
func TestLongRowsAreTruncated(t *testing.T) {
	p := newProject(t, tiny, strings.ReplaceAll(onDataset, "ALGORITHM", "dpo"))
	if _, err := p.run(t, "model.max_prompt_tokens=26", "model.max_response_tokens=4", "buffer.total_steps=2",
		"buffer.trainer_input.experience_buffer.format.truncate=true"); err != nil {
		t.Fatal(err)
	}
	for _, share := range curve(t, p.job(), "trainer", "response_length/clip_ratio") {
		if share != 1 {
			t.Errorf("%v of the answers were cut, want all", share)
		}
	}
}
