package operator

import "github.com/trinity-go/trinity"

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

// parts returns the rollouts of each group, or of the whole step as one part.
func (s Scope) parts(groups []trinity.Group) [][]trinity.Group {
	var parts [][]trinity.Group
	for i, g := range groups {
		if i == 0 || s == perGroup {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], rollouts(g)...)
	}
	return parts
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
