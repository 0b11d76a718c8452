package cpu

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// preferring is the mean over pairs of −log σ of the difference of their scores.
type preferring struct{}

func (preferring) Streams() trinity.Streams { return trinity.Streams{Score: true} }

func (preferring) Pairs() bool { return true }

func (preferring) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, loss, pairs := make([]trinity.TokenGrads, len(now)), 0.0, float64(len(b.Whole)/2)
	for i := 0; i < len(now); i += 2 {
		z := float64(now[i].Score) - float64(now[i+1].Score)
		loss += math.Log1p(math.Exp(-z)) / pairs
		slope := float32(-1 / (1 + math.Exp(z)) / pairs)
		grads[i].Score, grads[i+1].Score = slope, -slope
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

// preferred are pairs of sequences with a common prompt; the last sequence ends in padding.
func preferred() []*trinity.Experience {
	var all []*trinity.Experience
	for i, tokens := range [][]int32{
		{5, 9, 12, 30, 31, 1}, {5, 9, 12, 40, 1}, {7, 7, 8, 33, 20, 21, 22, 1}, {7, 7, 8, 2, 1}, {3, 50, 1}, {3, 51, 1, 0, 0},
	} {
		mask := make([]bool, len(tokens))
		mask[len(mask)-1] = true
		all = append(all, &trinity.Experience{ID: trinity.ExperienceID{Run: i}, Tokens: tokens, Mask: mask})
	}
	return all
}

// newRewardModel is a language model that becomes a reward model.
func newRewardModel(name string) Options {
	opts := tiny(name)
	opts.Score, opts.Seed = true, 3
	return opts
}

func scoresBy(t *testing.T, e *Engine, xs []*trinity.Experience) (scores []float32) {
	t.Helper()
	stats, err := e.Forward(t.Context(), whole(xs), trinity.Streams{Score: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range stats {
		if s.Logprob != nil || s.Value != nil || s.Entropy != nil {
			t.Fatalf("sequence %d has streams of tokens: %+v", i, s)
		}
		scores = append(scores, s.Score)
	}
	return scores
}

// prefer runs optimizer steps on the pairs, in micro-batches of so many sequences.
func prefer(t *testing.T, e *Engine, steps, size int) (losses []float64) {
	t.Helper()
	for range steps {
		sum, all := 0.0, preferred()
		for part := range slices.Chunk(all, size) {
			m, err := e.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: part, Whole: all}, preferring{})
			if err != nil {
				t.Fatal(err)
			}
			sum += m["loss"]
		}
		if _, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: 1e-2, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8}); err != nil {
			t.Fatal(err)
		}
		losses = append(losses, sum)
	}
	return losses
}

// The saved directory is transformers' …ForSequenceClassification with one label, and a reward
// model of it gives the scores that the trained engine gives, bit by bit.
func TestATrainedRewardModelScoresTheSame(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "qwen3", "smollm3", "gemma3_text", "olmo3", "phi3", "ministral3"} {
		e, dir := open(t, newRewardModel(name)), t.TempDir()
		first := scoresBy(t, e, preferred())
		losses := prefer(t, e, 20, 6)
		if losses[19] > losses[0]/4 {
			t.Errorf("%s: the loss went from %v to %v", name, losses[0], losses[19])
		}
		want := scoresBy(t, e, preferred())
		for i := 0; i < len(want); i += 2 {
			if want[i] <= want[i+1] {
				t.Errorf("%s: pair %d has scores %v and %v, at first %v and %v", name, i/2, want[i], want[i+1], first[i], first[i+1])
			}
		}
		if err := e.SaveModel(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		cfg, err := model.ReadConfig(dir)
		if err != nil || cfg.Head != model.SequenceClassification || cfg.NumLabels != 1 || cfg.HeadBias {
			t.Fatalf("%s: saved as %+v, %v", name, cfg, err)
		}
		var sequences [][]int32
		for _, x := range preferred() {
			sequences = append(sequences, x.Tokens)
		}
		r := rewardModel(t, Options{ModelPath: dir})
		scores, err := r.Score(t.Context(), sequences)
		if err != nil || r.Labels() != 1 {
			t.Fatal(r.Labels(), err)
		}
		for i := range want {
			if scores[i][0] != want[i] {
				t.Errorf("%s, sequence %d: the reward model gives %v, the engine that trained it %v", name, i, scores[i][0], want[i])
			}
		}
		again := open(t, Options{ModelPath: dir, Score: true}) // training continues from a reward model
		if got := scoresBy(t, again, preferred()); !slices.Equal(got, want) {
			t.Errorf("%s: opened to train it has scores %v, want %v", name, got, want)
		}
	}
}

func TestScoresDoNotDependOnMicroBatches(t *testing.T) {
	once := open(t, newRewardModel("llama"))
	prefer(t, once, 1, 6)
	want := scoresBy(t, once, preferred())
	for _, size := range []int{2, 4} {
		cut := open(t, newRewardModel("llama"))
		prefer(t, cut, 1, size)
		for i, got := range scoresBy(t, cut, preferred()) {
			if math.Abs(float64(got-want[i])) > 1e-4*math.Abs(float64(want[i]))+1e-6 {
				t.Errorf("micro-batches of %d: sequence %d has score %v after the step, want %v", size, i, got, want[i])
			}
		}
	}
	_, alone := once.gradientOf(t, preferring{}, whole(preferred()))
	once.passes.shareNothing = true
	if _, got := once.gradientOf(t, preferring{}, whole(preferred())); difference(got, alone) > 1e-6 {
		t.Errorf("prompts computed once per sequence: gradient differs by %.2g relative", difference(got, alone))
	}
}

func TestScoreGradientIsTheSlope(t *testing.T) {
	e := open(t, newRewardModel("llama"))
	prefer(t, e, 1, 6) // the new head has small weights, and so small slopes
	e.gradientIsSlope(t, preferring{}, whole(preferred()), 1e-2,
		scoreName, finalNormName, "model.layers.1.mlp.down_proj.weight", embeddingName)
}

// A sequence is scored at its last token but padding, whatever the mask.
func TestPaddingHasNoScore(t *testing.T) {
	e := open(t, newRewardModel("llama"))
	xs := preferred()
	padded := xs[5].Tokens
	unpadded := scoresBy(t, e, xs)
	e.cfg.PAD = []int32{0}
	want := scoresBy(t, e, xs)
	if !slices.Equal(want[:5], unpadded[:5]) {
		t.Errorf("sequences that end in no padding have scores %v, want %v", want[:5], unpadded[:5])
	}
	xs[5].Tokens, xs[5].Mask = padded[:3], make([]bool, 3)
	if got := scoresBy(t, e, xs); !slices.Equal(got, want) {
		t.Errorf("without padding and mask the scores are %v, want %v", got, want)
	}
	e.cfg.PAD = nil
	xs[5].Tokens, xs[5].Mask = padded, make([]bool, 5)
	if got := scoresBy(t, e, xs); got[5] == want[5] {
		t.Errorf("the last sequence has score %v with and without a padding token", got[5])
	}
}

// The saved config.json names the padding that training knew: transformers reads no other file for it.
func TestPaddingOfGenerationIsNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(tiny("llama").ModelPath)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"pad_token_id": 1}`), 0o666); err != nil {
		t.Fatal(err)
	}
	policy := open(t, Options{ModelPath: dir})
	if e := open(t, Options{ModelPath: dir, Score: true}); len(policy.cfg.PAD) != 1 || len(e.cfg.PAD) != 0 {
		t.Errorf("padding %v of the policy, %v of the reward model", policy.cfg.PAD, e.cfg.PAD)
	}
}

func TestScoresAreAskedForAlone(t *testing.T) {
	ctx, batch := t.Context(), whole(preferred())
	e, policy := open(t, newRewardModel("llama")), open(t, tiny("llama"))
	_, noScores := e.Forward(ctx, batch, trinity.Streams{})
	_, both := e.Forward(ctx, batch, trinity.Streams{Score: true, Value: true})
	_, ofPolicy := policy.Forward(ctx, batch, trinity.Streams{Score: true})
	_, trained := policy.ForwardBackward(ctx, batch, preferring{})
	_, byTokens := e.ForwardBackward(ctx, batch, broken{want: trinity.Streams{Score: true}, grads: func(n int) []trinity.TokenGrads {
		return slices.Repeat([]trinity.TokenGrads{{Logprob: make([]float32, 6)}}, 6)
	}})
	_, tooFew := e.ForwardBackward(ctx, batch, broken{
		want: trinity.Streams{Score: true}, grads: func(n int) []trinity.TokenGrads { return nil },
	})
	_, unasked := policy.ForwardBackward(ctx, batch, broken{grads: func(n int) []trinity.TokenGrads {
		return []trinity.TokenGrads{{Score: 1}, {}, {}, {}, {}, {}}
	}})
	_, empty := e.Forward(ctx, whole([]*trinity.Experience{{}}), trinity.Streams{Score: true})
	adapter, two, labels, frozen := newRewardModel("llama"), newRewardModel("llama"), newRewardModel("reward"), newRewardModel("llama")
	adapter.LoRA, two.Value, frozen.Reference = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, true, true
	_, withAdapter := Open(adapter)
	_, withTwo := Open(two)
	_, withLabels := Open(labels)
	_, withReference := Open(frozen)
	_, ofCritic := Open(newRewardModel("critic"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{noScores, "ask it for scores"}, {both, "ask it for scores"}, {ofPolicy, "no score head"}, {trained, "no score head"},
		{byTokens, "by streams of tokens"}, {tooFew, "0 gradients for 6"}, {unasked, "by the score"}, {empty, "no tokens"},
		{withAdapter, "all its weights"}, {withTwo, "one head"}, {withLabels, "with 3 labels"}, {withReference, "needs log-probabilities"},
		{ofCritic, "no score of a sequence"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q", c.err, c.want)
		}
	}
	spec := engine.TrainerSpec{ModelPath: tiny("llama").ModelPath, Head: engine.ScoreHead, Train: true, Seed: 3, MicroTokens: 64}
	opened, err := trainerPlugin{}.OpenTrainer(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, err := opened.ForwardBackward(ctx, batch, preferring{}); err != nil {
		t.Error(err)
	}
	if parts, err := (trainerPlugin{}).PlanMemory(spec); err != nil || len(parts) == 0 {
		t.Errorf("%v, %v", parts, err)
	}
}
