package advantage

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Reinforce is the policy gradient without a baseline (Williams 1992):
//
//	A_i = R_i, at every trained token of rollout i
//
// Metrics: as of [RLOO].
type Reinforce struct{}

func init() {
	registry.Advantages.Register("reinforce", "The reward itself, without a baseline (REINFORCE, Williams 1992): A = R at every trained token. Rollouts without a valid reward are left out.",
		func() trinity.Advantage { return &Reinforce{} })
}

// Advantages implements trinity.Advantage.
func (*Reinforce) Advantages(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return perGroup(groups, func(_ trinity.Group, rewards []float64) []float64 { return rewards })
}
