package operator

import (
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// rollouts splits a group into its rollouts. A rollout has several experiences if its workflow made
// several model calls. Operators keep or drop it as a whole, because an algorithm for several steps
// cannot recognize a rollout with a missing step.
func rollouts(g trinity.Group) []trinity.Group {
	var out []trinity.Group
	for i, e := range g {
		if i > 0 && g[i-1].ID.Run == e.ID.Run {
			out[len(out)-1] = append(out[len(out)-1], e)
		} else {
			out = append(out, trinity.Group{e})
		}
	}
	return out
}

// outcome returns the experience with the rollout's reward: its last step.
func outcome(rollout trinity.Group) *trinity.Experience { return rollout[len(rollout)-1] }

// Scope says whether an operator compares a rollout within its group or within the step.
type Scope string

const (
	perGroup Scope = "group"
	perStep  Scope = "step"
)

// compared returns the rollouts that an operator compares with one another: those of each group, or of the whole step. Those of
// each part (Experience.Part) are apart.
func (s Scope) compared(groups []trinity.Group) (all [][]trinity.Group) {
	at := map[string]int{} // of a part, in all
	for _, g := range byPart(groups) {
		i, ok := at[g[0].Part]
		if !ok || s == perGroup {
			i = len(all)
			at[g[0].Part], all = i, append(all, nil)
		}
		all[i] = append(all[i], rollouts(g)...)
	}
	return all
}

// byPart makes each part of a group a group of its own.
func byPart(groups []trinity.Group) []trinity.Group {
	apart, _ := experience.ByPart(slices.DeleteFunc(slices.Clone(groups), func(g trinity.Group) bool { return len(g) == 0 }))
	return apart
}

// replies returns the groups without what is no reply to their tasks, such as judgements of the replies.
func replies(groups []trinity.Group) []trinity.Group {
	return slices.DeleteFunc(byPart(groups), func(g trinity.Group) bool { return g[0].Part != "" })
}

// selection is a set of experiences, filled by rollouts.
type selection map[*trinity.Experience]bool

func (s selection) add(rollout trinity.Group) {
	for _, e := range rollout {
		s[e] = true
	}
}

func (s selection) has(e *trinity.Experience) bool { return s[e] }

func (s selection) lacks(e *trinity.Experience) bool { return !s[e] }
