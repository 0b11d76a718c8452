package advantage

import (
	"cmp"
	"slices"

	"github.com/trinity-go/trinity"
)

// run is the steps of one rollout: the experiences with the same ExperienceID.Run, in ascending
// turn. The step with the highest turn is the last one, whatever order they arrive in.
type run []*trinity.Experience

func (r run) last() *trinity.Experience { return r[len(r)-1] }

// scoredRuns splits a group into its runs, in order of first appearance. It drops runs whose last
// step has no valid reward, which is the outcome of the run. kept is the group without their steps.
func scoredRuns(g trinity.Group) (runs []run, kept trinity.Group, err error) {
	of := map[int]run{}
	var order []int
	for _, e := range g {
		if of[e.ID.Run] == nil {
			order = append(order, e.ID.Run)
		}
		of[e.ID.Run] = append(of[e.ID.Run], e)
	}
	valid := map[int]bool{}
	for _, id := range order {
		r := of[id]
		slices.SortStableFunc(r, func(a, b *trinity.Experience) int { return cmp.Compare(a.ID.Turn, b.ID.Turn) })
		outcome, err := scored(trinity.Group{r.last()})
		if err != nil {
			return nil, nil, err
		}
		if valid[id] = len(outcome) == 1; valid[id] {
			runs = append(runs, r)
		}
	}
	for _, e := range g {
		if valid[e.ID.Run] {
			kept = append(kept, e)
		}
	}
	return runs, kept, nil
}

// outcomes returns the reward of the last step of each run.
func outcomes(runs []run) []float64 {
	r := make([]float64, len(runs))
	for i, steps := range runs {
		r[i] = steps.last().Reward.Value
	}
	return r
}
