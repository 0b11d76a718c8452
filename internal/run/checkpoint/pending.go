package checkpoint

import (
	"fmt"
	"os"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
)

// writePending writes the groups that a checkpoint keeps for the next batch, as a delivery. Its
// binary form keeps numbers that are not finite too.
func writePending(path string, groups []trinity.Group) error {
	data, err := experience.AppendDelivery(nil, trinity.Delivery{Groups: groups})
	if err != nil {
		return err
	}
	return durable.WriteFile(path, data)
}

func readPending(path string) ([]trinity.Group, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := experience.DecodeDelivery(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d.Groups, nil
}
