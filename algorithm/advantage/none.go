package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// None computes no advantage, for losses that read none.
type none struct{}

func init() {
	registry.Advantages.Register("none", "No advantage: for losses that read none, such as sft.", func() trinity.Advantage { return &none{} })
}

// Needs implements trinity.Advantage.
func (*none) Needs() trinity.Needs { return trinity.Needs{} }

// Advantages returns all groups unchanged.
func (*none) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups, trinity.Metrics{}, nil
}
