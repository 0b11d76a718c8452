package run

import (
	"fmt"
	"os"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
)

// writePending writes the experiences that a checkpoint keeps for the next batch, as a delivery of
// one group. The binary form keeps numbers that are not finite too.
func writePending(path string, exps []*trinity.Experience) error {
	data, err := experience.AppendDelivery(nil, trinity.Delivery{Groups: []trinity.Group{exps}})
	if err != nil {
		return err
	}
	return durable.WriteFile(path, data)
}

func readPending(path string) ([]*trinity.Experience, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := experience.DecodeDelivery(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return slices.Concat(d.Groups...), nil
}
