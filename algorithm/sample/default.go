package sample

import (
	"context"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.SampleStrategies.Register("default",
		"The next train_batch_size experiences of the experience buffer, or rows of the dataset, oldest first. "+
			"Metrics: time/read_experience, sample/task_count, sample/model_version/{mean,max,min}.",
		func() trinity.SampleStrategy { return &Default{} })
}

// Default reads the experience buffer, or the dataset, in order.
type Default struct{}

// Needs implements trinity.SampleStrategy.
func (*Default) Needs() trinity.SampleNeeds { return trinity.SampleNeeds{} }

// Rollouts implements trinity.SampleStrategy.
func (*Default) Rollouts(n int) int { return n }

// Open implements trinity.SampleStrategy.
func (*Default) Open(usual trinity.Source, _ map[string]trinity.Source) (trinity.Source, error) {
	return &inOrder{reader{usual: usual}}, nil
}

type inOrder struct{ reader }

// Take implements trinity.Source.
func (s *inOrder) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	begin := time.Now()
	batch, err := s.usual.Take(ctx, want)
	if err != nil {
		return trinity.Taken{}, err
	}
	s.latest = batch.Metrics
	return s.give(begin, batch.Groups, batch.Groups), nil
}
