package sample

import (
	"context"
	"math"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.SampleStrategies.Register("staleness_control",
		"Like default, but without experiences that are too old: at train step t, counted from 1, the trainer drops experiences "+
			"sampled by a version before t − max_staleness (their oldest version counts) and reads others instead. "+
			"On-policy experiences have version t − 1, so max_staleness must be at least 1. "+
			"Metrics: those of default, sample/stale_count, the number of dropped experiences, "+
			"and sample/stale_response_length, the tokens of their responses.",
		func() trinity.SampleStrategy { return &StalenessControl{MaxStaleness: math.Inf(1)} })
}

// StalenessControl drops experiences whose weights are too old. Version v is the weights after
// train step v, and the version of an experience is the oldest version that sampled a token of it.
// Train step t, counted from 1, trains on experiences with
//
//	v ≥ max(t − max_staleness, 0)
//
// So max_staleness bounds the number of train steps, including t, between the weights that sampled
// an experience and the weights that result from it. It is 1 for rollouts of the newest weights.
//
// A replay buffer itself drops groups in which every experience is too old; its
// sample/expired_count counts them.
//
// Other experiences replace the dropped ones: a batch is short only if the experience buffer has no
// more, for example because the explorer waits for the next version.
//
// Unlike Trinity-RFT: the bound is the one of its newer source, because release 0.6.0 keeps one
// version more than max_staleness says (v ≥ t − max_staleness − 1). Validate refuses a
// max_staleness below 1, because no experience could ever satisfy it.
type StalenessControl struct {
	MaxStaleness float64 `yaml:"max_staleness" range:"[1,inf]" doc:"most train steps between sampling and update; 1 is on-policy, .inf is all"`
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
	batch.Dropped = map[string][]trinity.ExperienceID{"staleness_control": dropped.IDs}
	return batch, nil
}
