package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Reinforce is the policy gradient without a baseline (Williams 1992):
//
//	A_i = R_i, at every trained token of rollout i
//
// Metrics: as for rloo.
type reinforce struct{}

func init() {
	registry.Advantages.Register("reinforce",
		"The reward itself, without a baseline (REINFORCE, Williams 1992): A = R at every trained token. Drops rollouts without a valid reward.",
		func() trinity.Advantage { return &reinforce{} })
}

// Needs implements trinity.Advantage.
func (*reinforce) Needs() trinity.Needs { return trinity.Needs{} }

// Advantages implements trinity.Advantage.
func (*reinforce) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return perGroup(groups, func(_ trinity.Group, rewards []float64) []float64 { return rewards })
}
