package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// pairing is reinforce as a loss that compares pairs and probes every optimizer step. It records
// its calls.
type pairing struct {
	reinforce
	probes func(whole []*trinity.Experience) []*trinity.Experience
	seen   []string // its calls, in order
}

func (*pairing) Pairs() bool { return true }

func (p *pairing) Probes(whole []*trinity.Experience) []*trinity.Experience {
	p.seen = append(p.seen, fmt.Sprintf("probes of %d", len(whole)))
	return p.probes(whole)
}

func (p *pairing) Prepare(_ context.Context, probes *trinity.Batch, now []trinity.TokenStats) error {
	sum := 0.0
	for i, e := range probes.Experiences {
		sum += float64(now[i].Logprob[1])
		if e.RefLogprobs != nil {
			sum -= float64(e.RefLogprobs[1])
		}
	}
	p.seen = append(p.seen, fmt.Sprintf("prepared with %d: %.3f", len(probes.Experiences), sum))
	return nil
}

func (p *pairing) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	p.seen = append(p.seen, fmt.Sprintf("%d of %d", len(b.Experiences), len(b.Whole)))
	return p.reinforce.Loss(b, now)
}

func TestProbesComeBeforeTheMicroBatches(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	loss := &pairing{probes: func(whole []*trinity.Experience) []*trinity.Experience { return whole[:3] }}
	o.Policy.Loss, o.Policy.MiniBatch, o.MicroTokens = loss, 4, 1
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	// In each step half of the tokens are 0 with advantage −1, and half are 1 with advantage 1. So
	// the gradients of their logits are ½ and −½, and learning rate 0.5 moves the logits to −¼ and
	// ¼.
	z := math.Log(math.Exp(-0.25) + math.Exp(0.25) + 4)
	step := "probes of 4, prepared with 3: %.3f, 2 of 4, 2 of 4"
	want := fmt.Sprintf(step+", "+step, 3*math.Log(1.0/6), -0.25-3*z)
	if got := strings.Join(loss.seen, ", "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestPrepareIsNotCalledWithoutProbes(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	loss := &pairing{probes: func([]*trinity.Experience) []*trinity.Experience { return nil }}
	o.Policy.Loss, o.MicroTokens = loss, 1000
	if err := New(*o).Run(t.Context(), t.Context()); err != nil || strings.Join(loss.seen, ", ") != "probes of 8, 8 of 8" {
		t.Errorf("%v, %v", loss.seen, err)
	}
}

func TestOddNumberOfPairsIsRefused(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	o.Policy.Loss, o.Policy.MiniBatch = &pairing{}, 5
	err := New(*o).Run(t.Context(), t.Context())
	want := "an optimizer step has an odd number of them: 5; the last is 0/t/4/0"
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// counting is a bandit that counts the sequences that its reference computes.
type counting struct {
	*trinitytest.Bandit
	sequences int
}

func (c *counting) Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	c.sequences += len(b.Experiences)
	return c.Bandit.Reference(ctx, b)
}

func TestReferenceCacheOfRepeatedData(t *testing.T) {
	for _, c := range []struct {
		name  string
		cache *ReferenceCache
		want  int
	}{
		{"no cache", nil, 3 * 8},
		{"room for all", &ReferenceCache{Limit: 1 << 20}, 8}, // there are two kinds of sequence, and the first batch has both
		{"room for one", &ReferenceCache{Limit: entryOverhead + 4}, 8 + 4 + 4},
		{"no room", &ReferenceCache{}, 3 * 8},
	} {
		o, b, _ := newOptions(t, 3, new([]int64))
		engine := &counting{Bandit: b}
		seen := 0
		loss := &pairing{probes: func(whole []*trinity.Experience) []*trinity.Experience {
			for _, e := range whole {
				if len(e.RefLogprobs) != 2 || e.RefLogprobs[0] != 0 || math.Abs(float64(e.RefLogprobs[1])+math.Log(6)) > 1e-6 {
					t.Errorf("%s: reference log-probabilities %v", c.name, e.RefLogprobs)
				}
				seen++
			}
			copied := *whole[0]
			copied.RefLogprobs = nil
			return []*trinity.Experience{&copied, whole[1], whole[2]}
		}}
		o.Policy.Engine, o.Policy.Loss, o.Reference, o.Cache, o.Policy.MiniBatch = engine, loss, true, c.cache, 4
		if err := New(*o).Run(t.Context(), t.Context()); err != nil || seen != 24 {
			t.Fatalf("%s: %d seen, %v", c.name, seen, err)
		}
		const probes = 3 * 2 // of the six optimizer steps, the copies without reference log-probabilities
		if engine.sequences != c.want+probes {
			t.Errorf("%s: the reference computed %d sequences, want %d", c.name, engine.sequences, c.want+probes)
		}
	}
}

// Sequences with other tokens, another mask or another temperature have their own entries.
func TestReferenceCacheKeys(t *testing.T) {
	e := sequence(1, 2, 3)
	e.RefLogprobs = []float32{0, 0, -1, -2, -3}
	cache := &ReferenceCache{Limit: 1 << 10}
	cache.keep([]*trinity.Experience{e})
	same, other, hot, masked := sequence(1, 2, 3), sequence(2, 2, 3), sequence(1, 2, 3), sequence(1, 2, 3)
	hot.Temperature, masked.Mask[3] = 2, false
	cache.recall([]*trinity.Experience{same, other, hot, masked})
	if fmt.Sprint(same.RefLogprobs) != "[0 0 -1 -2 -3]" || other.RefLogprobs != nil || hot.RefLogprobs != nil || masked.RefLogprobs != nil {
		t.Error(same.RefLogprobs, other.RefLogprobs, hot.RefLogprobs, masked.RefLogprobs)
	}
}

// forwards is an engine that counts its forward passes without a gradient.
type forwards struct {
	*trinitytest.Bandit
	n, sequences int
}

func (f *forwards) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	f.n++
	f.sequences += len(b.Experiences)
	return f.Bandit.Forward(ctx, b, want)
}

// A step that is one micro-batch needs no forward pass of its own for the probes, if they are the step.
func TestProbesOfOneMicroBatchCostNoPass(t *testing.T) {
	for _, c := range []struct{ tokens, probes, forwards int }{{1000, 8, 0}, {1, 8, 8}, {1000, 7, 1}} {
		o, bandit, _ := newOptions(t, 1, new([]int64))
		engine := &forwards{Bandit: bandit}
		loss := &pairing{probes: func(whole []*trinity.Experience) []*trinity.Experience { return whole[:c.probes] }}
		o.Policy.Loss, o.Policy.Engine, o.MicroTokens = loss, engine, c.tokens
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("prepared with %d: %.3f", c.probes, float64(c.probes)*math.Log(1.0/6))
		if engine.n != c.forwards || loss.seen[1] != want || len(loss.seen) < 3 {
			t.Errorf("%+v: %d forward passes, %v\nwant %s", c, engine.n, loss.seen, want)
		}
	}
}

// A loss that probes gets the bits that a forward pass of its own would give, where the corrector's pass has computed them.
func TestProbesAreKnownFromTheCorrector(t *testing.T) {
	for _, c := range []struct {
		name      string
		miniBatch int
		change    func(exps []*trinity.Experience) []*trinity.Experience
		spared    bool
	}{
		{"the whole batch", 0, func(exps []*trinity.Experience) []*trinity.Experience { return exps }, true},
		{"mini-batches", 4, func(exps []*trinity.Experience) []*trinity.Experience { return exps }, false},
		{"fewer sequences", 0, func(exps []*trinity.Experience) []*trinity.Experience { return exps[2:] }, false},
		{"another order", 0, func(exps []*trinity.Experience) []*trinity.Experience { return slices.Concat(exps[1:], exps[:1]) }, false},
		{"another mask", 0, func(exps []*trinity.Experience) []*trinity.Experience {
			rejected := *exps[0]
			rejected.Mask = make([]bool, len(rejected.Mask))
			return append([]*trinity.Experience{&rejected}, exps[1:]...)
		}, false},
	} {
		var got, want []trinity.TokenStats
		o, b, _ := newOptions(t, 2, new([]int64))
		engine := &forwards{Bandit: b}
		probed := 0
		loss := &probes{take: func(probes *trinity.Batch, now []trinity.TokenStats) {
			got, probed = append(got, now...), probed+len(now)
			own, err := b.Forward(t.Context(), probes, trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, own...)
		}}
		o.Corrector = correctFunc(func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
			return c.change(exps), nil, nil
		})
		o.Policy.Engine, o.Policy.Loss, o.Policy.MiniBatch, o.Policy.Epochs, o.MicroTokens = engine, loss, c.miniBatch, 2, 1
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
			t.Fatal(c.name, err)
		}
		for i := range want {
			if !slices.Equal(got[i].Logprob, want[i].Logprob) {
				t.Errorf("%s: sequence %d has %v, want %v", c.name, i, got[i].Logprob, want[i].Logprob)
			}
		}
		const corrected = 2 * 8
		own := engine.sequences - corrected
		if spared := own == probed/2; spared != c.spared || !spared && own != probed || len(want) == 0 {
			t.Errorf("%s: of %d probes the engine computed %d", c.name, probed, own)
		}
	}
}

// probes is reinforce as a loss that probes every optimizer step.
type probes struct {
	reinforce
	take func(probes *trinity.Batch, now []trinity.TokenStats)
}

func (*probes) Probes(whole []*trinity.Experience) []*trinity.Experience { return whole }

func (p *probes) Prepare(_ context.Context, probes *trinity.Batch, now []trinity.TokenStats) error {
	p.take(probes, now)
	return nil
}
