package sample

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.SampleStrategies.Register("mix",
		"Mixes demonstrations into batches of rollouts: in a batch of n, the last ⌈expert_data_ratio·n⌉ experiences are the next rows of "+
			"the auxiliary buffer sft_dataset_name, marked as experts; the others are the next ones of the experience buffer. "+
			"Metrics: those of default, computed over the rollouts, and sample/expert_count.",
		func() trinity.SampleStrategy { return &Mix{ExpertDataRatio: 0.5, SFTDatasetName: "sft_dataset"} })
}

// Mix puts demonstrations into every batch: ⌈r·n⌉ of n experiences are experts, the others
// rollouts. Each of several optimizer steps over a batch has its share of both; config refuses a
// ppo_mini_batch_size that leaves a step with one kind. An expert has IsExpert and no reward,
// advantage or log-probabilities of a policy, so that it is in no statistics of rollouts.
//
// If the experience buffer has fewer rollouts than the batch needs, for example because a filter
// dropped groups, the batch has proportionally fewer experts, rounded up: the ratio stays. Training
// ends with the demonstrations; total_epochs of the auxiliary buffer sets their end.
//
// Unlike Trinity-RFT: experts have no reward and no log-probabilities instead of zeros, because a
// zero would count in means of rewards and as a probability of 1. Unlike Trinity-RFT: optimizer
// steps over part of a batch hold both kinds, because a step of demonstrations learns from them at
// the full rate with any weight: AdamW removes the scale of a loss.
type Mix struct {
	ExpertDataRatio float64 `yaml:"expert_data_ratio" range:"(0,1)" doc:"share of demonstrations in a batch, rounded up"`
	SFTDatasetName  string  `yaml:"sft_dataset_name" required:"name an entry of auxiliary_buffers" doc:"name of the demonstrations"`
}

// Needs implements trinity.SampleStrategy.
func (m *Mix) Needs() trinity.SampleNeeds {
	return trinity.SampleNeeds{Auxiliary: map[string]string{m.SFTDatasetName: "sft"}}
}

// Rollouts implements trinity.SampleStrategy.
func (m *Mix) Rollouts(n int) int { return n - roundUp(m.ExpertDataRatio*float64(n)) }

// roundUp returns ⌈x⌉. It ignores rounding errors: a product of decimal fractions may be a little
// more than the whole number that it stands for.
func roundUp(x float64) int { return int(math.Ceil(x - 1e-9)) }

// Open implements trinity.SampleStrategy.
func (m *Mix) Open(usual trinity.Source, auxiliary map[string]trinity.Source) (trinity.Source, error) {
	experts, ok := auxiliary[m.SFTDatasetName]
	if !ok {
		return nil, fmt.Errorf("sample_strategy mix: there is no auxiliary buffer %q: "+
			"add it under buffer.trainer_input.auxiliary_buffers, or name another in sft_dataset_name", m.SFTDatasetName)
	}
	return &mixed{reader: reader{usual: usual, auxiliary: map[string]trinity.Source{m.SFTDatasetName: experts}}, mix: *m}, nil
}

type mixed struct {
	reader
	mix Mix
}

// Take implements trinity.Source.
func (s *mixed) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	begin := time.Now()
	rollouts, n := want, want.N
	if rollouts.N = s.mix.Rollouts(n); rollouts.N < 1 {
		return trinity.Taken{}, fmt.Errorf("sample_strategy mix: expert_data_ratio %v leaves a batch of %d no rollout: "+
			"lower it, or raise buffer.train_batch_size", s.mix.ExpertDataRatio, n)
	}
	if err := s.hold(ctx, rollouts, nil); err != nil {
		return trinity.Taken{}, err
	}
	experts, err := s.experts(ctx, roundUp(float64((n-rollouts.N)*want.Count(s.held))/float64(rollouts.N)))
	if err != nil {
		return trinity.Taken{}, err
	}
	count := len(slices.Concat(experts...))
	batch := s.give(begin, slices.Concat(s.held, experts), s.held)
	batch.Metrics["sample/expert_count"] = float64(count)
	return batch, nil
}

// experts returns the groups of the next n demonstrations. The names of their tasks begin with the
// name of the buffer, because a taskset may have rows of the same name.
func (s *mixed) experts(ctx context.Context, n int) ([]trinity.Group, error) {
	if n == 0 {
		return nil, nil
	}
	name := s.mix.SFTDatasetName
	taken, err := s.auxiliary[name].Take(ctx, trinity.Want{N: n})
	if err != nil {
		return nil, fmt.Errorf("auxiliary buffer %s: %w", name, err)
	}
	for _, e := range taken.Experiences() {
		e.IsExpert = true
		e.ID.Task = name + "/" + e.ID.Task
	}
	return taken.Groups, nil
}
