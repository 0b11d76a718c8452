package trainer

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// cutting is an engine that cuts by the number of experiences and records the sizes of its
// micro-batches.
type cutting struct {
	*trinitytest.Bandit
	cut   func(exps []*trinity.Experience, unit int) [][]*trinity.Experience
	sizes []int
}

func (c *cutting) Cut(exps []*trinity.Experience, unit int) [][]*trinity.Experience {
	return c.cut(exps, unit)
}

func (c *cutting) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	c.sizes = append(c.sizes, len(b.Experiences))
	return c.Bandit.ForwardBackward(ctx, b, loss)
}

// An engine that cuts an optimizer step itself gets its own pieces.
func TestEngineCutsItself(t *testing.T) {
	e := &cutting{Bandit: trinitytest.NewBandit(6)}
	e.cut = func(exps []*trinity.Experience, unit int) [][]*trinity.Experience {
		return [][]*trinity.Experience{exps[:3*unit], exps[3*unit : 4*unit], exps[4*unit:]}
	}
	u := &updater{Learner: Learner{Engine: e, Loss: reinforce{}, Schedule: Schedule{LR: 1, Type: "constant"}}, microTokens: 1,
		trace: (&Tracing{}).begin(0, nil)}
	if _, err := u.learn(t.Context(), 1, scored(8)); err != nil {
		t.Fatal(err)
	}
	if want := []int{3, 1, 4}; !slices.Equal(e.sizes, want) {
		t.Errorf("pieces of %v, want %v", e.sizes, want)
	}
}

// The trainer refuses pieces that lose, repeat or reorder experiences, or separate a unit: it would
// train on something else than the batch.
func TestBadCutIsRefused(t *testing.T) {
	exps := []*trinity.Experience(scored(4))
	for want, pieces := range map[string][][]*trinity.Experience{
		"into pieces that hold only 2": {exps[:2]},
		"once, in order":               {exps[2:], exps[:2]},
		"whole units of 2":             {exps[:1], exps[1:]},
		"behind experience 2":          {exps[:2], {}, exps[2:]},
	} {
		e := &cutting{Bandit: trinitytest.NewBandit(6), cut: func([]*trinity.Experience, int) [][]*trinity.Experience { return pieces }}
		if _, err := microBatches(e, exps, 1, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	e := &cutting{Bandit: trinitytest.NewBandit(6), cut: func(e []*trinity.Experience, _ int) [][]*trinity.Experience {
		return [][]*trinity.Experience{append(e[:4:4], e[0])}
	}}
	if _, err := microBatches(e, exps, 1, 2); err == nil {
		t.Error("the trainer accepted an experience twice")
	}
}
