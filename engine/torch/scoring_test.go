package torch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// preferring is the sum over pairs of −log σ of the difference of their scores.
type preferring struct{}

func (preferring) Streams() trinity.Streams { return trinity.Streams{Score: true} }

func (preferring) Loss(_ *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, loss := make([]trinity.TokenGrads, len(now)), 0.0
	for i := 0; i < len(now); i += 2 {
		z := float64(now[i].Score) - float64(now[i+1].Score)
		loss += math.Log1p(math.Exp(-z))
		slope := float32(-1 / (1 + math.Exp(z)))
		grads[i].Score, grads[i+1].Score = slope, -slope
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

// preferred are pairs of sequences with a common prompt; the last sequence ends in padding.
func preferred() *trinity.Batch {
	b := &trinity.Batch{Step: 1}
	for i, tokens := range [][]int32{
		{5, 9, 12, 30, 31, 1}, {5, 9, 12, 40, 1}, {7, 7, 8, 33, 20, 21, 22, 1}, {7, 7, 8, 2, 1}, {3, 50, 1}, {3, 51, 1, 0, 0},
	} {
		x := &trinity.Experience{ID: trinity.ExperienceID{Run: i}, Tokens: tokens, Mask: make([]bool, len(tokens))}
		x.Mask[len(tokens)-1] = true
		b.Experiences = append(b.Experiences, x)
	}
	b.Whole = b.Experiences
	return b
}

// rewarding is a language model that becomes a reward model.
func rewarding(name string) engine.TrainerSpec {
	spec := tiny(name)
	spec.Train, spec.Head, spec.Seed, spec.Optimizer.Type = true, engine.ScoreHead, 3, engine.SGD
	return spec
}

// scoresBy returns the scores of the pairs.
func scoresBy(t *testing.T, e engine.Trainer) (scores []float64) {
	t.Helper()
	stats, err := e.Forward(t.Context(), preferred(), trinity.Streams{Score: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		scores = append(scores, float64(s.Score))
	}
	return scores
}

// prefer runs an optimizer step on the pairs, in micro-batches of so many sequences.
func prefer(t *testing.T, e engine.Trainer, size int, rate float64) {
	t.Helper()
	b := preferred()
	for part := range slices.Chunk(b.Whole, size) {
		if _, err := e.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: part, Whole: b.Whole}, preferring{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.OptimStep(t.Context(), trinity.OptimParams{LR: rate}); err != nil {
		t.Fatal(err)
	}
}

func near(a, b []float64, most float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= most })
}

// A reward model in training has the scores and the gradient of the embedded engine, and its saved
// directory is a reward model of both engines.
func TestRewardModelAgreesWithTheEmbeddedEngine(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		for _, name := range []string{"llama", "qwen2", "qwen3, ddp", "qwen3_moe"} {
			t.Run(fmt.Sprintf("%s, ranks: %d", name, ranks), func(t *testing.T) {
				name, copies := strings.CutSuffix(name, ", ddp")
				spec := rewarding(name)
				if copies {
					spec.Strategy = "ddp"
				}
				ours, theirs := opened(t, onRanks(t, ranks), spec), embedded(t, spec)
				prefer(t, ours, 6, 1e-1) // the new head has small weights, and so small scores
				prefer(t, theirs, 6, 1e-1)
				want := scoresBy(t, theirs)
				if got := scoresBy(t, ours); !near(got, want, 1e-4) || math.Abs(want[0]-want[1]) < 1e-2 {
					t.Errorf("scores %v, want %v, which differ", got, want)
				}
				got, ourLoss := gradientOf(t, ours, preferred(), preferring{}, false)
				ref, theirLoss := gradientOf(t, theirs, preferred(), preferring{}, false)
				compareGradients(t, got, ref, 1e-5, 2e-5)
				if math.Abs(ourLoss-theirLoss) > 1e-4 {
					t.Errorf("the loss is %v, want %v", ourLoss, theirLoss)
				}
			})
		}
	}
}

// What was trained is saved: a directory that the embedded engine opens as a reward model, and a
// state that another engine resumes from, in micro-batches of another size.
func TestFilesOfARewardModel(t *testing.T) {
	spec := rewarding("llama")
	spec.MicroTokens = 20
	e := opened(t, onRanks(t, 2), spec)
	prefer(t, e, 6, 1e-1)
	want, dir, state := scoresBy(t, e), t.TempDir(), t.TempDir()
	if err := e.SaveModel(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := e.SaveState(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	again := spec
	again.ModelPath = dir
	for name, other := range map[string]engine.Trainer{
		"embedded": embedded(t, again), "saved": opened(t, onRanks(t, 1), again), "resumed": opened(t, onRanks(t, 1), spec),
	} {
		if name == "resumed" {
			if err := other.LoadState(t.Context(), state); err != nil {
				t.Fatal(err)
			}
		}
		if got := scoresBy(t, other); !near(got, want, 1e-5) {
			t.Errorf("%s: scores %v, want %v", name, got, want)
		}
	}
	prefer(t, e, 2, 1e-1)
	resumed := opened(t, onRanks(t, 1), spec)
	if err := resumed.LoadState(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	prefer(t, resumed, 6, 1e-1)
	if got, want := scoresBy(t, resumed), scoresBy(t, e); !near(got, want, 1e-4) {
		t.Errorf("a step in other micro-batches gives the scores %v, want %v", got, want)
	}
	cpu, err := registry.Trainers.Build("cpu")
	if err != nil {
		t.Fatal(err)
	}
	want = scoresBy(t, opened(t, onRanks(t, 1), again))
	for _, opener := range []engine.TrainerOpener{cpu, onRanks(t, 1), onRanks(t, 2)} {
		scorer, err := opener.OpenScorer(t.Context(), engine.TrainerSpec{ModelPath: dir, Head: engine.ScoreHead, MicroTokens: 64})
		if err != nil {
			t.Fatal(err)
		}
		defer scorer.Close()
		for i, x := range preferred().Experiences {
			score, err := scorer.Score(t.Context(), [][]int32{x.Tokens, x.Tokens[:2]})
			if err != nil || scorer.Labels() != 1 || math.Abs(float64(score[0][0])-want[i]) > 1e-5 {
				t.Errorf("sequence %d: the reward model gives %v (%v), want %v", i, score, err, want[i])
			}
		}
	}
}

// wrongStream is a loss of scores that returns derivatives by log-probabilities.
type wrongStream struct{ preferring }

func (wrongStream) Loss(_ *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	return slices.Repeat([]trinity.TokenGrads{{Logprob: make([]float32, 6)}}, len(now)), nil, nil
}

func TestScoresThatAreRefused(t *testing.T) {
	policy, reward := opened(t, onRanks(t, 1), trained("llama")), opened(t, onRanks(t, 1), rewarding("llama"))
	_, ofPolicy := policy.Forward(t.Context(), preferred(), trinity.Streams{Score: true})
	_, trainedPolicy := policy.ForwardBackward(t.Context(), preferred(), preferring{})
	_, noScores := reward.Forward(t.Context(), preferred(), trinity.Streams{})
	_, tokens := reward.ForwardBackward(t.Context(), preferred(), wrongStream{})
	_, empty := reward.Forward(t.Context(), &trinity.Batch{Experiences: []*trinity.Experience{{}}}, trinity.Streams{Score: true})
	_, noReward := onRanks(t, 1).OpenScorer(t.Context(), tiny("llama"))
	_, labels := onRanks(t, 1).OpenScorer(t.Context(), tiny("reward"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{noReward, "is no reward model"}, {labels, "has 3 labels"},
		{ofPolicy, "no score head"}, {trainedPolicy, "no score head"}, {noScores, "ask it for scores"}, {tokens, "by streams of tokens"},
		{empty, "has no tokens"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v; want %q", c.err, c.want)
		}
	}
}
