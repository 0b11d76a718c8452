package cpu

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

func rewardModel(t *testing.T, opts Options) *rewardScorer {
	t.Helper()
	r, err := openRewardModel(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// withoutPad is the recorded reward model with a config.json that names no padding.
func withoutPad(t *testing.T) Options {
	t.Helper()
	from, dir := tiny("reward").ModelPath, t.TempDir()
	text, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["pad_token_id"] = nil
	text, _ = json.Marshal(config)
	weights, err := os.ReadFile(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"config.json": text, "model.safetensors": weights, "generation_config.json": []byte(`{"pad_token_id":5}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return Options{ModelPath: dir}
}

func TestScoresEqualTransformers(t *testing.T) {
	var want struct {
		Sequences [][]int32
		Scores    [][]float64
		Unpadded  [][]float64 `json:"scores_without_pad"`
	}
	readJSON(t, "testdata/reward/reference.json.gz", &want)
	for name, c := range map[string]struct {
		opts   Options
		scores [][]float64
	}{"with padding": {tiny("reward"), want.Scores}, "without": {withoutPad(t), want.Unpadded}} {
		var first [][]float32
		for _, tokens := range []int{0, 24} { // in one part, and in several
			c.opts.MaxTokens = tokens
			r := rewardModel(t, c.opts)
			got, err := r.Score(t.Context(), want.Sequences)
			if err != nil || len(got) != len(c.scores) || r.Labels() != 3 {
				t.Fatalf("%s: %d scores of %d labels, %v", name, len(got), r.Labels(), err)
			}
			for i := range got {
				if d := worst(got[i], c.scores[i]); d > 1e-5 || len(got[i]) != 3 {
					t.Errorf("%s, sequence %d: %v is %.2g off", name, i, got[i], d)
				}
			}
			if first != nil && !slices.EqualFunc(got, first, slices.Equal) {
				t.Errorf("%s: other bits in several parts", name)
			}
			first = got
		}
	}
}

func TestRewardModelErrors(t *testing.T) {
	r := rewardModel(t, tiny("reward"))
	for want, sequence := range map[string][]int32{"0 tokens": {}, "65 tokens": make([]int32, 65), "outside the vocabulary": {1, 64}} {
		if _, err := r.Score(t.Context(), [][]int32{{1}, sequence}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	if got, err := r.Score(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("no sequences: %v, %v", got, err)
	}
	r.Close()
	if _, err := r.Score(t.Context(), [][]int32{{1}}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("closed: %v", err)
	}
	if s, err := (trainerPlugin{}).OpenScorer(t.Context(), engine.TrainerSpec{ModelPath: tiny("llama").ModelPath}); s != nil || err == nil {
		t.Errorf("a language model as a scorer: %v, %v", s, err)
	}
	for want, name := range map[string]string{"no score": "llama", "use it as a critic": "critic"} {
		if _, err := openRewardModel(tiny(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, want)
		}
	}
}

// TestCriticFromRewardModel begins as TRL does: the value of a state is the reward model's score of
// the tokens so far.
func TestCriticFromRewardModel(t *testing.T) {
	source, err := model.Open(tiny("critic").ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	cfg, dir := *source.Config, t.TempDir()
	cfg.Head, cfg.HeadBias = model.SequenceClassification, false
	if err := model.WriteDir(dir, &cfg, withoutBias{source}, "f32"); err != nil {
		t.Fatal(err)
	}
	e, x := open(t, Options{ModelPath: dir, Value: true}), sequences(t, false)[3]
	values := valuesOf(t, e, []*trinity.Experience{x})[0].Value
	scores, err := rewardModel(t, Options{ModelPath: dir}).Score(t.Context(), [][]int32{x.Tokens[:1], x.Tokens[:7], x.Tokens[:20]})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []int{1, 7, 20} {
		if x.Mask[at] && values[at] != scores[i][0] {
			t.Errorf("the value at token %d is %v, the score of the tokens before %v", at, values[at], scores[i][0])
		}
	}
	saved := t.TempDir()
	if err := e.SaveModel(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	if cfg, err := model.ReadConfig(saved); err != nil || cfg.Head != model.SequenceClassification || cfg.NumLabels != 1 {
		t.Errorf("saved as %+v, %v", cfg, err)
	}
}

type withoutBias struct{ model.Source }

func (w withoutBias) Names() []string {
	return slices.DeleteFunc(w.Source.Names(), func(name string) bool { return name == scoreBiasName })
}
