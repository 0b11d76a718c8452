package run

import (
	"cmp"
	"math"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/simulation"
)

// pace returns the rule by which the explorer keeps step with the trainer.
func (s *Settled) pace() explorer.Pace {
	staleness := cmp.Or(s.Method.Sample.Staleness, math.Inf(1))
	cfg := &s.Synchronizer
	return explorer.Pace{
		Style: cfg.SyncStyle, Interval: int64(config.Value(cfg.SyncInterval, cfg.ExplorerSyncInterval)), Offset: int64(cfg.SyncOffset),
		MaxStaleness: staleness, PerStep: int64(s.Batch.StepRollouts), PerBatch: int64(s.Batch.Rollouts),
	}
}

// publishInterval returns the number of train steps between two versions.
func (s *Settled) publishInterval() int64 {
	return int64(config.Value(s.Synchronizer.SyncInterval, s.Synchronizer.TrainerSyncInterval))
}

// capacity returns the number of rollouts that the queue has room for. A step has at most perStep
// rollouts. In style fixed the trainer waits for the explorer, so the queue has room for everything
// that can pile up meanwhile. Otherwise the explorer would wait for the trainer too.
func (s *Settled) capacity(pace explorer.Pace, steps int64, perStep int) int {
	if s.Synchronizer.SyncStyle != "fixed" {
		return s.groups()
	}
	ahead := int(max(pace.Interval, s.publishInterval()) + pace.Offset)
	left := perStep // by each train step: a batch of experiences may take few rollouts
	if s.Batch.CountsRollouts {
		left = max(0, perStep-s.Batch.Rollouts)
	}
	return max(s.groups(), ahead*perStep+left*int(steps))
}

// groups returns the capacity key, which counts groups, in rollouts. It is at least a batch.
func (s *Settled) groups() int {
	return max(s.Buffer.TrainerInput.ExperienceBuffer.Capacity*max(1, s.Method.GroupSize), s.Batch.Rollouts)
}

// Setting describes the stage with one explorer, for a simulation of so many explore steps.
func (s *Settled) Setting(steps int64) simulation.Setting {
	pace, group, strategy := s.pace(), max(1, s.Method.GroupSize), s.Method.Strategy
	if len(s.Data.Auxiliary) > 0 {
		strategy = nil // a strategy that mixes sources reads the rollouts in order
	}
	return simulation.Setting{
		Pace: pace, Handover: handovers[pace.Style], PublishInterval: s.publishInterval(), Strategy: strategy,
		Batch: s.Batch.Rollouts * s.Batch.PerRow, InFlight: s.Explorer.RunnerPerModel * s.Explorer.RolloutModel.EngineNum * group,
		Explorers: 1, StepsInFlight: s.Batch.StepsInFlight, Steps: steps, Capacity: s.capacity(pace, steps, s.Buffer.BatchSize*group),
	}
}
