package algorithm

import (
	"cmp"
	"context"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// partsApart returns an advantage function that compares only experiences of one part (Experience.Part) with one another: each part
// of a group is a group of its own. It returns nil for nil, and a function that compares nothing as it is.
func partsApart(a trinity.Advantage) trinity.Advantage {
	if a == nil || !a.Needs().Group {
		return a
	}
	if keeps, ok := a.(keeper); ok {
		return keepingByPart{byPart{a}, keeps}
	}
	return byPart{a}
}

type byPart struct{ trinity.Advantage }

// keepingByPart is one of a function that keeps something over steps.
type keepingByPart struct {
	byPart
	keeper
}

// Advantages implements [trinity.Advantage]. What is kept of a task is one group again, with the experiences of a rollout
// together, as buffers count rollouts.
func (b byPart) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	apart, has := experience.ByPart(groups)
	kept, metrics, err := b.Advantage.Advantages(ctx, apart)
	if !has || err != nil {
		return kept, metrics, err
	}
	type task struct {
		step int64
		name string
	}
	var whole []trinity.Group
	at := map[task]int{}
	for _, g := range kept {
		if len(g) == 0 {
			continue
		}
		of := task{g[0].ID.Step, g[0].ID.Task}
		i, ok := at[of]
		if !ok {
			i = len(whole)
			at[of], whole = i, append(whole, nil)
		}
		whole[i] = append(whole[i], g...)
	}
	for _, g := range whole {
		slices.SortStableFunc(g, func(a, b *trinity.Experience) int { return cmp.Or(a.ID.Run-b.ID.Run, a.ID.Turn-b.ID.Turn) })
	}
	return whole, metrics, nil
}
