package advantage

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// None leaves groups as they are, for losses that read no advantage.
type None struct{}

func init() {
	registry.Advantages.Register("none", "No advantage: for losses that read none, such as sft.", func() trinity.Advantage { return &None{} })
}

// Advantages returns all groups.
func (*None) Advantages(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups, trinity.Metrics{}, nil
}
