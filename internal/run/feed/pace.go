package feed

import (
	"cmp"
	"math"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/weights"
)

// Pace returns the rule by which the explorer keeps step with the trainer.
func Pace(s *config.Settled) explorer.Pace {
	cfg := &s.Synchronizer
	return explorer.Pace{
		Style: cfg.SyncStyle, Interval: int64(config.Value(cfg.SyncInterval, cfg.ExplorerSyncInterval)), Offset: int64(cfg.SyncOffset),
		MaxStaleness: cmp.Or(s.Method.Sample.Staleness, math.Inf(1)), PerStep: int64(s.Batch.StepRollouts), PerBatch: int64(s.Batch.Rollouts),
	}
}

// PublishInterval returns the number of train steps between two versions.
func PublishInterval(s *config.Settled) int64 {
	return int64(config.Value(s.Synchronizer.SyncInterval, s.Synchronizer.TrainerSyncInterval))
}

// Capacity returns the number of rollouts that the queue has room for. A step has at most perStep
// rollouts. In style fixed the trainer waits for the explorer, so the queue has room for everything
// that can pile up meanwhile. Otherwise the explorer would wait for the trainer too.
func Capacity(s *config.Settled, pace explorer.Pace, steps int64, perStep int) int {
	if s.Synchronizer.SyncStyle != "fixed" {
		return Groups(s)
	}
	ahead := int(max(pace.Interval, PublishInterval(s)) + pace.Offset)
	left := perStep // by each train step: a batch of experiences may take few rollouts
	if s.Batch.CountsRollouts {
		left = max(0, perStep-s.Batch.Rollouts)
	}
	return max(Groups(s), ahead*perStep+left*int(steps))
}

// Groups returns the capacity key, which counts groups, in rollouts. It is at least a batch.
func Groups(s *config.Settled) int {
	return max(s.Buffer.TrainerInput.ExperienceBuffer.Capacity*max(1, s.Method.GroupSize), s.Batch.Rollouts)
}

// Handover returns the way in which the explorer gets a version.
func Handover(cfg *config.Settled) weights.Handover {
	switch cfg.Synchronizer.SyncStyle {
	case "explorer_driven", "trainer_driven":
		return weights.WhenAsked
	case "fully_async":
		return weights.AtOnce
	}
	return weights.AtRendezvous // of fixed
}

// Follows reports whether the process only works for another one, which trains the stage.
func Follows(cfg *config.Settled) bool {
	return cfg.Mode == "serve" || cfg.Mode == "explore" && cfg.Buffer.TrainerInput.ExperienceBuffer.StorageType != "file"
}
