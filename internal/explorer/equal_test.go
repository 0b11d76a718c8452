package explorer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
)

// rewarding returns an answer whose reward depends on its step and its run.
type rewarding func(id trinity.ExperienceID) float64

func (f rewarding) Run(_ context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	id := r.Model.ID
	return []*trinity.Experience{{
		ID: id, Tokens: make([]int32, 2), Mask: []bool{false, true}, PromptLen: 1, Response: "no\n\x1b[2J" + strings.Repeat("é", 100),
		Reward: trinity.Reward{Value: f(id), Valid: true},
	}}, nil
}

// telling keeps the lines for people, and the share of equal groups by step.
type telling struct {
	lines  []string
	shares map[int64]float64
}

func (t *telling) Log(_ context.Context, r trinity.Record) error {
	t.shares[r.Step] = r.Metrics["rollout/equal_reward_share"]
	return nil
}
func (t *telling) Warn(error)      {}
func (t *telling) Say(line string) { t.lines = append(t.lines, line) }

// The explorer reports every step in which the rewards that the algorithm compares are equal, with
// two answers, and says louder when such steps follow one another.
func TestEqualRewardsAreReported(t *testing.T) {
	byTask := func(id trinity.ExperienceID) float64 { return float64(len(id.Task)) + float64(id.Task[len(id.Task)-1]) }
	for _, c := range []struct {
		name, learns string
		reward       rewarding
		want         string // steps that are reported, ! for a louder line
		shares       string
	}{
		{"equal in six steps", "group", func(id trinity.ExperienceID) float64 {
			return max(0, float64(id.Step-6)) * float64(id.Run)
		}, "1 2 3 4 5!", "1 1 1 1 1 1 0 0"},
		{"a row that is broken", "group", func(id trinity.ExperienceID) float64 {
			return float64(id.Run) * float64(id.Step%2)
		}, "2 4 6 8", "0 1 0 1 0 1 0 1"},
		{"equal within each group alone", "group", byTask, "1 2 3 4 5!", "1 1 1 1 1 1 1 1"},
		{"an algorithm that compares a whole step", "step", byTask, "", "1 1 1 1 1 1 1 1"},
		{"a whole step is equal", "step", func(trinity.ExperienceID) float64 { return 1 }, "1 2 3 4 5!", "1 1 1 1 1 1 1 1"},
		{"an algorithm without rewards", "", func(trinity.ExperienceID) float64 { return 1 }, "", "1 1 1 1 1 1 1 1"},
		{"experts beside the rollouts", "group", byTask, "1 2 3 4 5!", "1 1 1 1 1 1 1 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newExplorer(t, buffer.NewQueue(100, 0, nil), 8)
			told := &telling{shares: map[int64]float64{}}
			e.opts.Learns, e.opts.Recorder, e.opts.Experts = c.learns, told, strings.HasPrefix(c.name, "experts")
			e.opts.Agenda = NewAgenda(mix(t, newTaskset(5, 2, c.reward)), nil, 2)
			if err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			var steps, shares []string
			for _, line := range told.lines {
				rest, loud := strings.CutPrefix(line, "WARNING: ")
				step, _, _ := strings.Cut(strings.TrimPrefix(rest, "explorer step "), ":")
				if loud {
					step += "!"
				}
				steps = append(steps, step)
				if strings.Contains(line, "learns nothing") == e.opts.Experts || strings.Contains(line, "only the data of experts") != e.opts.Experts {
					t.Errorf("experts %t: %q", e.opts.Experts, line)
				}
				if n := strings.Count(line, `: "no\n\x1b[2J`+strings.Repeat("é", 73)+`…"`); n != 2 || strings.ContainsAny(line, "\n\x1b") {
					t.Errorf("%d answers in %q", n, line)
				}
			}
			for step := range int64(8) {
				shares = append(shares, fmt.Sprint(told.shares[step+1]))
			}
			if strings.Join(steps, " ") != c.want || strings.Join(shares, " ") != c.shares {
				t.Errorf("reported steps %v, shares %v; want %s, %s", steps, shares, c.want, c.shares)
			}
		})
	}
}

// A group without two rewards has no share.
func TestEqualRewardShare(t *testing.T) {
	scored, unscored := &trinity.Experience{Reward: trinity.Reward{Valid: true}}, &trinity.Experience{ID: trinity.ExperienceID{Run: 1}}
	one := []*outcome{{group: trinity.Group{scored}}, {group: trinity.Group{scored, unscored}}}
	if share, ok := rolloutMetrics(one)["equal_reward_share"]; ok {
		t.Errorf("groups of one have a share of %v", share)
	}
}
