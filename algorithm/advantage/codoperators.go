package advantage

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("cod_advantage_fn",
		"Computes the advantages of Connect-the-Dots among the operators, with the arguments of the advantage function of that name, which then "+
			"need not be the algorithm's. Drops runs without a valid outcome.",
		func() trinity.Operator { return &codOperator{cod: *registry.Advantages.Default("cod").(*cod)} })
	registry.Operators.Register("cod_overwrite_reward_with_returns",
		"Makes the return of an experience its reward, so that an advantage function that knows no packs can learn from it. It stands after "+
			"cod_advantage_fn with iterative_hint_e2e_causal.",
		func() trinity.Operator { return &codReturns{} })
}

// codOperator is the advantage function as an operator.
type codOperator struct {
	cod `yaml:",inline"`
}

// Process implements [trinity.Operator].
func (o *codOperator) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return o.Advantages(ctx, groups)
}

// codReturns replaces rewards by returns.
type codReturns struct{}

// Process implements [trinity.Operator].
func (*codReturns) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	for _, g := range groups {
		for _, e := range g {
			at := slices.Index(e.Mask, true)
			if at < 0 { // nothing is learnt of it
				continue
			}
			if e.Returns == nil {
				return nil, nil, fmt.Errorf("experience %s has no returns: put the operator cod_advantage_fn with "+
					"iterative_hint_e2e_causal: true before", e.ID)
			}
			e.Reward = trinity.Reward{Value: float64(e.Returns[at]), Valid: true, Parts: e.Reward.Parts}
		}
	}
	return groups, trinity.Metrics{}, nil
}
