// Package pipeline edits groups between explorer and buffer: operators in order, then the algorithm's advantage.
package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// Pipeline is what every step's groups pass through.
type Pipeline struct {
	Operators []trinity.Operator
	Advantage trinity.Advantage // nil when the algorithm has none
}

// Process returns the groups that are left, in order, and metrics without the experience_pipeline/ prefix.
func (p *Pipeline) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	for i, op := range p.Operators {
		kept, m, err := op.Process(ctx, groups)
		if err != nil {
			return nil, nil, fmt.Errorf("operator %d (%T): %w", i, op, err)
		}
		groups = slices.DeleteFunc(kept, func(g trinity.Group) bool { return len(g) == 0 })
		merge(metrics, m)
	}
	if p.Advantage != nil {
		kept, m, err := p.Advantage.Advantages(groups)
		if err != nil {
			return nil, nil, fmt.Errorf("advantage: %w", err)
		}
		groups = kept
		merge(metrics, m)
	}
	count := 0
	for _, g := range groups {
		count += len(g)
	}
	metrics["experience_count"] = float64(count)
	return groups, metrics, nil
}

// merge adds up counts, such as filtered_count, over the parts of the pipeline; of any other number the last part's stands.
func merge(metrics, m trinity.Metrics) {
	for name, v := range m {
		if strings.HasSuffix(name, "_count") {
			v += metrics[name]
		}
		metrics[name] = v
	}
}
