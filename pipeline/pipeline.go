// Package pipeline edits groups between explorer and buffer: operators in order, then the algorithm's advantage.
package pipeline

import (
	"context"
	"fmt"

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
		kept := groups[:0:0]
		for _, g := range groups {
			g, m, err := op.Process(ctx, g)
			if err != nil {
				return nil, nil, fmt.Errorf("operator %d (%T): %w", i, op, err)
			}
			metrics.Add(m)
			if len(g) > 0 {
				kept = append(kept, g)
			}
		}
		groups = kept
	}
	if p.Advantage != nil {
		kept, m, err := p.Advantage.Advantages(groups)
		if err != nil {
			return nil, nil, fmt.Errorf("advantage: %w", err)
		}
		groups = kept
		metrics.Merge("", m)
	}
	count := 0
	for _, g := range groups {
		count += len(g)
	}
	metrics["experience_count"] = float64(count)
	return groups, metrics, nil
}
