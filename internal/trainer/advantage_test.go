package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// advantage is a trainer's advantage made of functions.
type advantage struct {
	needs trinity.Needs
	score func(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error)
}

func (a advantage) Needs() trinity.Needs { return a.needs }

func (a advantage) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return a.score(groups)
}

// asTheyCame returns the groups with the advantages that they arrived with.
func asTheyCame(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups, trinity.Metrics{"kl": 0.5}, nil
}

// watched is a bandit that counts the experiences of its forward and reference passes.
type watched struct {
	*trinitytest.Bandit
	forward, reference int // experiences
	asked              []trinity.Streams
}

func (w *watched) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	w.forward += len(b.Experiences)
	w.asked = append(w.asked, want)
	return w.Bandit.Forward(ctx, b, want)
}

func (w *watched) Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	w.reference += len(b.Experiences)
	return w.Bandit.Reference(ctx, b)
}

// The advantage gets groups by step and task, in the order of their first experience. The trainer
// trains only on the experiences that the advantage returns.
func TestAdvantageInTheTrainer(t *testing.T) {
	o, b, logged := newOptions(t, 1, new([]int64))
	source := o.Source
	o.Source = mixed{source}
	var got string
	o.Advantage = advantage{score: func(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		for _, g := range groups {
			for _, e := range g {
				got += fmt.Sprintf(" %d/%s/%d", e.ID.Step, e.ID.Task, e.ID.Run)
			}
			got += ";"
		}
		left := groups[1][:1] // run 1, a token 1
		left[0].Advantages = []float32{0, 3}
		return []trinity.Group{left}, trinity.Metrics{"kl": 0.5, "rewards/mean": -7}, nil
	}}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := " 0/t/0 0/t/3 0/t/6; 0/u/1 0/u/4 0/u/7; 1/t/2 1/t/5;"; got != want {
		t.Errorf("groups%s\nwant%s", got, want)
	}
	if b.Weights[0] >= 0 || b.Weights[1] <= 0 {
		t.Errorf("logits %v: only a token 1 with advantage 3 was left", b.Weights)
	}
	m := (*logged)[0]
	for name, want := range map[string]float64{
		"critic/advantages/mean": 3, "critic/advantages/min": 3, "critic/kl": 0.5, "critic/rewards/mean": -7, "critic/score/mean": 0.5,
	} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
}

// mixed is a source that divides the experiences of a batch into three groups.
type mixed struct{ trinity.Source }

func (s mixed) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := s.Source.Take(ctx, want)
	groups := make([]trinity.Group, 3)
	for i, e := range taken.Experiences() {
		e.ID.Step, e.ID.Task = int64(i%3/2), []string{"t", "u", "t"}[i%3]
		groups[i%3] = append(groups[i%3], e)
	}
	return trinity.Taken{Groups: groups}, err
}

func TestAdvantageThatKeepsNothingTrainsNothing(t *testing.T) {
	o, b, _ := newOptions(t, 1, new([]int64))
	o.Advantage = advantage{score: func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return nil, nil, nil }}
	tr := New(*o)
	if err := tr.Run(t.Context(), t.Context()); err != nil || b.Weights[1] != 0 || tr.at.Step != 1 {
		t.Errorf("error %v, logits %v, step %d", err, b.Weights, tr.at.Step)
	}
	o, _, _ = newOptions(t, 1, new([]int64))
	wrong := errors.New("no values")
	o.Advantage = advantage{score: func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return nil, nil, wrong }}
	if err := New(*o).Run(t.Context(), t.Context()); !errors.Is(err, wrong) || !strings.Contains(err.Error(), "trainer step 1: advantage: ") {
		t.Error(err)
	}
}

// One forward pass computes both the entropies and the old log-probabilities. The advantage gets
// the experiences that the corrector returns.
func TestEntropiesAndOldLogprobsInOnePass(t *testing.T) {
	for _, corrects := range []bool{true, false} {
		o, b, _ := newOptions(t, 1, new([]int64))
		engine := &watched{Bandit: b}
		o.Policy.Engine, o.Policy.Epochs = engine, 3
		if corrects {
			o.Corrector = correctFunc(func(exps []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
				return exps[:5], nil, nil
			})
		}
		seen := 0
		score := func(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
			for _, e := range groups[0] {
				seen++
				if (e.OldLogprobs != nil) != corrects || len(e.Entropies) != 2 || math.Abs(float64(e.Entropies[1])-math.Log(6)) > 1e-6 {
					t.Errorf("entropies %v, old log-probabilities %v", e.Entropies, e.OldLogprobs)
				}
			}
			return asTheyCame(groups)
		}
		o.Advantage = advantage{needs: trinity.Needs{Entropies: true}, score: score}
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 5, false: 8}[corrects]; engine.forward != 8 || seen != want || !engine.asked[0].Entropy {
			t.Errorf("corrects %v: the engine computed %d experiences, the advantage got %d, the streams were %v",
				corrects, engine.forward, seen, engine.asked[0])
		}
	}
}

// The trainer computes the reference's log-probabilities of an experience once, in any number of
// epochs.
func TestReferenceIsComputedOnce(t *testing.T) {
	o, b, _ := newOptions(t, 1, new([]int64))
	engine := &watched{Bandit: b}
	o.Policy.Engine, o.Reference, o.Policy.Epochs, o.Policy.MiniBatch = engine, true, 3, 4
	var first []*trinity.Experience
	o.Advantage = advantage{score: func(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		first = slices.Concat(groups...)
		return asTheyCame(groups)
	}}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if engine.reference != 8 || math.Abs(float64(first[0].RefLogprobs[1])+math.Log(6)) > 1e-6 {
		t.Fatalf("the reference computed %d experiences, want 8 in 3 epochs: %v", engine.reference, first[0].RefLogprobs)
	}
	first[0].RefLogprobs = nil // one new experience, and seven that the trainer has seen
	kept := &first[1].RefLogprobs[1]
	if err := New(*o).update(t.Context(), 2, trinity.JoinGroups(nil, first), &provenance{}, trinity.Metrics{}); err != nil {
		t.Fatal(err)
	}
	if engine.reference != 9 || first[0].RefLogprobs == nil || kept != &first[1].RefLogprobs[1] {
		t.Errorf("the reference computed %d experiences after the second batch, want 9", engine.reference)
	}
}

// The metrics have the returns with and without a critic; vf_explained_var requires values.
func TestReturnsWithoutACritic(t *testing.T) {
	e := &trinity.Experience{
		Tokens: make([]int32, 3), Mask: []bool{false, true, true}, Returns: []float32{9, 1, 3}, Advantages: make([]float32, 3),
	}
	m := trinity.Metrics{}
	streamMetrics([]*trinity.Experience{e}, m)
	if m["critic/returns/mean"] != 2 || m["critic/returns/max"] != 3 || m["critic/returns/min"] != 1 || len(m) != 6 {
		t.Errorf("%v, want only returns and advantages", m)
	}
}

// reporting is a bandit whose first optimizer step has a metric that the other steps lack.
type reporting struct {
	*trinitytest.Bandit
	steps int
}

func (r *reporting) ForwardBackward(context.Context, *trinity.Batch, trinity.Loss) (trinity.Metrics, error) {
	r.steps++
	m := trinity.Metrics{"often": float64(r.steps)}
	if r.steps == 1 {
		m["once"] = 6
	}
	return m, nil
}

// Metrics are means over the optimizer steps that have them: here 2 in each of 3 epochs.
func TestMetricsAreMeansOverOptimizerSteps(t *testing.T) {
	o, b, logged := newOptions(t, 1, new([]int64))
	o.Policy.Engine, o.Policy.MiniBatch, o.Policy.Epochs, o.MicroTokens = &reporting{Bandit: b}, 4, 3, 1000
	if err := New(*o).Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := (*logged)[0]; m["actor/often"] != 3.5 || m["actor/once"] != 6 {
		t.Errorf("often %v, want 3.5; once %v, want 6", m["actor/often"], m["actor/once"])
	}
}
