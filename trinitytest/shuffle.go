package trinitytest

import (
	"context"
	"math/rand/v2"

	"github.com/trinity-go/trinity"
)

// ShuffleRewards is an operator that permutes the rewards of a step. It is a control: rewards keep
// their distribution, but teach nothing.
type ShuffleRewards struct{}

// Process implements trinity.Operator.
func (ShuffleRewards) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	var all trinity.Group
	for _, g := range groups {
		all = append(all, g...)
	}
	if len(all) == 0 {
		return groups, nil, nil
	}
	rng := rand.New(rand.NewPCG(uint64(all[0].ID.Step), 0))
	rng.Shuffle(len(all), func(i, j int) { all[i].Reward, all[j].Reward = all[j].Reward, all[i].Reward })
	return groups, nil, nil
}
