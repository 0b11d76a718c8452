package run_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// scoringWords trains a reward model on words of the letters a and b.
const scoringWords = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
seed: 3
mode: train
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 16}
algorithm:
  algorithm_type: bradley_terry
  optimizer: {lr: 3e-3, lr_warmup_steps: 5, lr_scheduler_type: cosine, min_lr_ratio: 0.1, betas: [0.9, 0.95], weight_decay: 0}
buffer:
  train_batch_size: 16
  total_steps: 120
  trainer_input:
    experience_buffer: {path: DIR/words.jsonl, format: {prompt_type: plaintext, prompt_key: question},
        data_selector: {selector_type: shuffle, seed: 1}}
    eval_buffers:
      held_out: {path: DIR/words_held_out.jsonl, format: {prompt_type: plaintext, prompt_key: question}}
explorer: {eval_interval: 40}
trainer: {save_interval: 40}
monitor: {monitor_type: jsonl}
`

// words writes pairs of different words of six letters, of which the one with more letters of the
// kind that the question names is preferred, or either one if the preferences are shuffled.
// Held-out pairs are never shuffled. A model that does not read the question is right in half of
// the pairs.
func (p project) words(t *testing.T, shuffled bool) {
	rng := rand.New(rand.NewPCG(11, 0))
	draw := func() (word string) {
		for range 6 {
			word += string("ab"[rng.IntN(2)])
		}
		return word
	}
	for _, file := range []struct {
		name string
		rows int
	}{{"words", 600}, {"words_held_out", 200}} {
		var rows strings.Builder
		for n := 0; n < file.rows; {
			letter, chosen, rejected := string("ab"[n%2]), draw(), draw()
			if strings.Count(chosen, letter) <= strings.Count(rejected, letter) {
				continue
			}
			if n++; shuffled && file.name == "words" && rng.IntN(2) == 0 {
				chosen, rejected = rejected, chosen
			}
			rows.WriteString(encode(t, map[string]any{"question": letter, "chosen": chosen, "rejected": rejected}))
		}
		write(t, filepath.Join(p.dir, file.name+".jsonl"), rows.String())
	}
}

// A reward model from scratch learns which answers are preferred, in pairs that it was not trained
// on, and only if the preferences say so.
func TestARewardModelLearnsPreferences(t *testing.T) {
	trinitytest.Long(t, "trains reward models", "internal/run", "algorithm", "internal/trainer", "engine/cpu")
	for _, c := range []struct {
		name      string
		shuffled  bool
		overrides []string
		low, high float64 // of the held-out pairs after the last step
	}{
		{"preferences", false, nil, 0.9, 1},
		{"another seed", false, []string{"seed=4"}, 0.9, 1},
		{"shuffled preferences", true, nil, 0.35, 0.65},
		{"learning rate 0", false, []string{"algorithm.optimizer.lr=0"}, 0.4, 0.6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, scoringWords)
			p.words(t, c.shuffled)
			if _, err := p.run(t, c.overrides...); err != nil {
				t.Fatal(err)
			}
			accuracy := curve(t, p.job(), "trainer", "eval/held_out/accuracy")
			t.Logf("held-out accuracy %v", accuracy)
			if n := len(accuracy); n != 4 || math.Abs(accuracy[0]-0.5) > 0.1 || accuracy[n-1] < c.low || accuracy[n-1] > c.high+1e-9 {
				t.Errorf("held-out accuracy is %v, want .4 to .6 before the first step and %v to %v after the last", accuracy, c.low, c.high)
			}
			if c.name == "learning rate 0" && accuracy[0] != accuracy[len(accuracy)-1] {
				t.Errorf("nothing was trained, and the accuracy went from %v to %v", accuracy[0], accuracy[len(accuracy)-1])
			}
		})
	}
}

// The folder of a checkpoint is a reward model: it scores conversations as in training, and a
// policy learns from it.
func TestATrainedRewardModelServes(t *testing.T) {
	trinitytest.Long(t, "trains a reward model and a policy", "internal/run", "algorithm", "internal/trainer", "engine/cpu")
	p := newProject(t, tiny, scoringWords)
	p.words(t, false)
	summary, err := p.run(t)
	if err != nil {
		t.Fatal(err)
	}
	trained := summary.Stages[0].Model
	var shape struct {
		Architectures []string          `json:"architectures"`
		Labels        map[string]string `json:"id2label"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(trained, "config.json"))), &shape); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(shape.Architectures, []string{"LlamaForSequenceClassification"}) || len(shape.Labels) != 1 {
		t.Errorf("config.json has %+v", shape)
	}
	card := read(t, filepath.Join(trained, "README.md"))
	for _, want := range []string{"pipeline_tag: text-classification", "A reward model that began as",
		"AutoModelForSequenceClassification.from_pretrained"} {
		if !strings.Contains(card, want) {
			t.Errorf("the model card lacks %q:\n%s", want, card)
		}
	}
	measured := curve(t, p.job(), "trainer", "eval/held_out/accuracy")
	got := accuracyOf(t, trained, rowsOf(t, filepath.Join(p.dir, "words_held_out.jsonl")))
	if math.Abs(got-measured[len(measured)-1]) > 1e-9 {
		t.Errorf("as a reward model it prefers the chosen conversation in %v of the held-out pairs, in training %v", got, measured)
	}

	learning := strings.Replace(rl, "default_reward_fn_type: test_even", "default_reward_fn_type: reward_model", 1)
	write(t, p.config, strings.ReplaceAll(strings.Replace(learning, "name: r\n", "name: policy\n", 1), "DIR", p.dir))
	const taskset = "buffer.explorer_input.taskset."
	if _, err := p.run(t, taskset+"reward_fn_args.model_path="+filepath.Dir(filepath.Dir(trained)), // the checkpoint
		taskset+"path="+filepath.Join(p.dir, "words.jsonl"), taskset+"format.response_key=chosen",
		"buffer.explorer_input.eval_tasksets=[]", "buffer.total_steps=30"); err != nil {
		t.Fatal(err)
	}
	scores := curve(t, filepath.Join(filepath.Dir(p.job()), "policy"), "explorer", "rollout/score/mean")
	if n := len(scores); n != 30 || mean(scores[25:]) < mean(scores[:5])+0.5 {
		t.Errorf("mean scores of the policy's steps are %v; want 30 that rise", scores)
	}
}

// accuracyOf returns the share of pairs whose chosen conversation has the higher score of an open
// reward model.
func accuracyOf(t *testing.T, dir string, rows []map[string]any) float64 {
	t.Helper()
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		t.Fatal(err)
	}
	scorer, err := opener.OpenScorer(t.Context(), engine.TrainerSpec{ModelPath: dir, Head: engine.ScoreHead})
	if err != nil {
		t.Fatal(err)
	}
	defer scorer.Close()
	text, err := renderer.Open(dir, renderer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	right := 0
	for _, row := range rows {
		var chats [][]int32
		for _, key := range []string{"chosen", "rejected"} {
			tokens, err := text.Render([]trinity.Message{{Role: "user", Content: fmt.Sprint(row["question"])},
				{Role: "assistant", Content: fmt.Sprint(row[key])}}, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			chats = append(chats, tokens)
		}
		scores, err := scorer.Score(t.Context(), chats)
		if err != nil {
			t.Fatal(err)
		}
		if scores[0][0] > scores[1][0] {
			right++
		}
	}
	return float64(right) / float64(len(rows))
}

// What cannot begin with a reward model, and what a reward model cannot be trained with, is one line.
func TestWhereARewardModelDoesNotFit(t *testing.T) {
	p := newProject(t, tiny, scoringWords)
	p.words(t, false)
	facts, err := settle.Facts(p.load(t).Settled()[0])
	if err != nil || facts.Time == nil || strings.Contains(strings.Join(facts.Time.Faster, "\n"), "lora_configs") {
		t.Errorf("the plan has %+v, %v; it must not advise an adapter, which is refused", facts.Time, err)
	}
	for override, words := range map[string][]string{
		"algorithm.kl_loss_fn=k2":                                         {"algorithm.kl_loss_fn", "trains a reward model, which has none"},
		"algorithm.policy_loss_fn=sft":                                    {"algorithm.policy_loss_fn", "would imitate the rejected answers"},
		"buffer.trainer_input.experience_buffer.format.margin_key=margin": {`no field "margin"`, "words.jsonl:1"},
	} {
		_, err := p.run(t, override)
		oneLine(t, err, words...)
	}
}
