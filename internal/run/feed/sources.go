package feed

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
)

// Batches returns the source of the trainer's batches. The sample strategy makes it from the usual
// source, which is a buffer or a dataset, and from the auxiliary buffers.
func (s *Reader) Batches(ctx context.Context, usual trinity.Source) (trinity.Source, error) {
	auxiliary := map[string]trinity.Source{}
	for _, b := range s.Data.Auxiliary {
		epochs := config.Value(0, b.TotalEpochs) // 0: as many as the rollouts need
		rows, err := s.rows(ctx, &b.ExperienceBuffer, b.SchemaType, epochs)
		if err == nil {
			err = rows.Check(ctx, rows.Total(), 1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Key, err)
		}
		auxiliary[b.Name] = rows
	}
	return s.Method.Strategy.Open(usual, auxiliary)
}
