package sample

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.SampleStrategies.Register("staleness_control", "As default, without experiences that are too old: at train step t, counted from 1, those of a version before t − max_staleness "+
		"(the oldest version that sampled them) are dropped, and others read in their place. On-policy experiences are of version t − 1, so 1 is the least that leaves any. "+
		"Metrics: those of default, and sample/stale_count, the number dropped, and sample/stale_response_length, tokens of their responses.",
		func() trinity.SampleStrategy { return &StalenessControl{MaxStaleness: math.Inf(1)} })
}

// StalenessControl drops experiences whose weights are too far behind those that are trained. Version v is the weights after train step v, and an
// experience is of the oldest version v that sampled any of it. Train step t, counted from 1, trains on those with
//
//	v ≥ max(t − max_staleness, 0)
//
// so max_staleness is the number of optimizer updates, this step's own included, between the weights that sampled and those that come of it;
// it is 1 for rollouts of the newest weights.
//
// A replay buffer leaves groups out of which every experience is too old: they are its sample/expired_count.
//
// What is dropped is replaced: a batch is short only where the experience buffer has no more, as when the explorer waits for the next version.
//
// Unlike Trinity-RFT: the bound is that of its newer source, because release 0.6.0 keeps one version more than max_staleness says
// (v ≥ t − max_staleness − 1); and a max_staleness below 1 is refused, because no experience could ever meet it.
type StalenessControl struct {
	MaxStaleness float64 `yaml:"max_staleness" doc:"train steps that a version may be behind: at step t the oldest one allowed is t − max_staleness, and on-policy is 1; .inf allows all"`
}

// Validate refuses what would drop every experience.
func (s *StalenessControl) Validate() error {
	if !(s.MaxStaleness >= 1) {
		return fmt.Errorf("max_staleness is %v, must be at least 1: experiences of the newest weights are one step behind", s.MaxStaleness)
	}
	return nil
}

// Needs implements trinity.SampleStrategy.
func (s *StalenessControl) Needs() trinity.SampleNeeds {
	return trinity.SampleNeeds{Staleness: s.MaxStaleness}
}

// Rollouts implements trinity.SampleStrategy.
func (*StalenessControl) Rollouts(n int) int { return n }

// Open implements trinity.SampleStrategy.
func (s *StalenessControl) Open(usual trinity.Source, _ map[string]trinity.Source) (trinity.Source, error) {
	return &fresh{reader{usual: usual}, s.MaxStaleness}, nil
}

type fresh struct {
	reader
	limit float64
}

// Take implements trinity.Source.
func (s *fresh) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	begin := time.Now()
	oldest := float64(s.batches+1) - s.limit
	want.Oldest = int64(math.Ceil(max(0, oldest)))
	if err := s.hold(ctx, want, func(e *trinity.Experience) bool { return float64(e.Versions[0]) >= oldest }); err != nil {
		return trinity.Taken{}, err
	}
	dropped := s.dropped
	batch := s.give(begin, s.held, s.held)
	dropped.describe(batch.Metrics)
	return batch, nil
}
