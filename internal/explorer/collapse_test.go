package explorer

import (
	"fmt"
	"testing"

	"github.com/trinity-go/trinity"
)

// answered returns the outcome of a task: each rollout has an answer and a reward.
func answered(rewards []float64, answers ...string) *outcome {
	o := &outcome{task: &trinity.Task{}}
	for i, answer := range answers {
		x := &trinity.Experience{Response: answer, Reward: trinity.Reward{Value: rewards[i], Valid: true}}
		x.ID.Run = i
		o.group = append(o.group, x)
	}
	return o
}

func TestCollapsedGroups(t *testing.T) {
	right, wrong := []float64{1, 1, 1}, []float64{0, 0, 0}
	for name, c := range map[string]struct {
		outcomes []*outcome
		share    float64
		ok       bool
	}{
		"different answers":         {[]*outcome{answered(wrong, "a", "b", "a"), answered([]float64{1, 0, 0}, "c", "d", "e")}, 0, true},
		"all right":                 {[]*outcome{answered(right, "1", "1", "1"), answered(right, "2", "2", "2")}, 0, true},
		"half wrong":                {[]*outcome{answered(right, "1", "1", "1"), answered(wrong, "2", "2", "2")}, 0.5, true},
		"a task that is yes or no":  {[]*outcome{answered(right, "yes", "yes", "yes"), answered(right, "no", "no", "no")}, 0, true},
		"few tasks with one answer": {[]*outcome{answered(right, "yes", "yes", "yes"), answered(right, "yes", "yes", "yes")}, 0, true},
		"one word for every task": {[]*outcome{answered(right, "9", "9", "9"), answered(right, "9", "9", "9"), answered(right, "9", "9", "9"),
			answered(right, "9", "9", "9")}, 1, true},
		"one rollout a task": {[]*outcome{answered(wrong, "a"), answered(wrong, "a")}, 0, false},
		"no text":            {[]*outcome{answered(wrong, "", "", "")}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(Options{})
			e.collapsed([]*outcome{answered(right, "the", "highest", "reward")})
			if share, ok := e.collapsed(c.outcomes); share != c.share || ok != c.ok {
				t.Errorf("%v, %v", share, ok)
			}
		})
	}
	var many []*outcome // one deviates
	for i := range 12 {
		last := "9"
		if i == 0 {
			last = fmt.Sprint(i)
		}
		many = append(many, answered(right, "9", "9", last))
	}
	if share, _ := New(Options{}).collapsed(many); share < 0.9 {
		t.Errorf("one of 36 answers differs: %v", share)
	}
}
