package run

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/registry"
)

// store is a buffer that keeps a log.
type store interface {
	trinity.Buffer
	// Trim removes from the log what a state has no need of.
	Trim(trinity.SourceState) error
}

// store makes the buffer between explorer and trainer.
func (s *stage) store(ex *explorer.Explorer, log *durable.Log) (store, error) {
	own := s.cfg.Buffer.TrainerInput.ExperienceBuffer
	patience, memory := seconds(own.MaxReadTimeout), int64(own.CapacityMb)<<20
	if !own.ReplayBuffer.Enable {
		queue := buffer.NewQueue(s.capacity(ex), memory, log)
		queue.ByRollout = s.cfg.CountsRollouts()
		queue.TakeTimeout, queue.PutTimeout = patience, seconds(s.cfg.Synchronizer.SyncTimeout)
		return queue, nil
	}
	replay := &own.ReplayBuffer
	priority, err := registry.PriorityFuncs.Build(replay.PriorityFn, replay.PriorityFnArgs)
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer.replay_buffer.priority_fn: %w", err)
	}
	options := buffer.ReplayOptions{
		Capacity: own.Capacity, Memory: memory, Priority: priority, Seed: int64(s.cfg.Seed),
		TakeTimeout: patience, ByRollout: s.cfg.CountsRollouts(), Lockstep: s.cfg.Synchronizer.SyncStyle == "fixed",
	}
	if replay.ReuseCooldownTime != nil {
		cooldown := seconds(*replay.ReuseCooldownTime)
		options.Cooldown = &cooldown
	}
	return buffer.NewReplay(options, log), nil
}
