package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// heard is a tracer that keeps the rollouts that it is told of.
type heard struct{ failed []trinity.FailedRollout }

func (h *heard) Span(trinity.Span)              {}
func (h *heard) Trained(trinity.Trained)        {}
func (h *heard) Failed(f trinity.FailedRollout) { h.failed = append(h.failed, f) }

// The tracer is told of one answer of each rollout that lost some, with who dropped it and why, of a few,
// and first of those without a valid reward.
func TestTheTracerIsToldOfDroppedAnswers(t *testing.T) {
	group := func(task string, runs, turns int, reward trinity.Reward) (g trinity.Group) {
		for run := range runs {
			for turn := range turns {
				g = append(g, &trinity.Experience{
					ID: trinity.ExperienceID{Step: 7, Task: task, Run: run, Turn: turn}, Tokens: []int32{1, int32(turn)}, PromptLen: 1,
					Reward: reward,
				})
			}
		}
		return g
	}
	valid := trinity.Reward{Valid: true, Value: 0.5}
	other := &trinity.Experience{ID: trinity.ExperienceID{Step: 3}, Tokens: []int32{1}}
	edit := part(func(g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		g[0] = slices.Delete(g[0], 0, 1) // the first turn of a rollout, which the next part drops whole
		return append(g, trinity.Group{other}), nil, nil
	})
	last := part(func(g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return g[:0], nil, nil })
	for _, c := range []struct {
		in   []trinity.Group
		want []string
	}{
		{[]trinity.Group{group("a", 1, 2, valid), group("b", 1, 3, trinity.InvalidReward("no number"))},
			[]string{"7/b/0/0 [1] [2] dropped by last, no valid reward: no number", "7/a/0/0 [1] [1] dropped by last, with reward 0.5"}},
		{[]trinity.Group{group("a", 1, 1, trinity.Reward{})},
			[]string{"7/a/0/0 [1] [0] dropped by edit, no valid reward: the workflow gave none"}},
	} {
		var to heard
		p := Pipeline{Operators: []Operator{{"edit", edit}, {"last", last}}, Say: func(string) {}, Tracer: &to}
		if _, _, err := p.Process(t.Context(), 7, c.in); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range to.failed {
			got = append(got, fmt.Sprint(f.ID, " ", f.Prompt, " ", f.Sampled, " ", f.Reason))
			if f.Kind != trinity.DroppedAnswer || f.Role != trinity.RoleExplorer || f.Time.IsZero() {
				t.Errorf("%+v", f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("told %q\nwant %q", got, c.want)
		}
	}
	var to heard
	p := Pipeline{Operators: []Operator{{"last", last}}, Say: func(string) {}, Tracer: &to}
	_, _, err := p.Process(t.Context(), 7, []trinity.Group{group("a", 20, 1, valid), group("b", 3, 1, trinity.Reward{})})
	if err != nil || len(to.failed) != maxTold || to.failed[2].ID.Task != "b" || to.failed[3].ID.Task != "a" {
		t.Errorf("told %v, %v", to.failed, err)
	}
}
