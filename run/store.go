package run

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/registry"
)

// store makes the buffer between explorer and trainer.
func (s *stage) store(ex *explorer.Explorer, log *durable.Log) (trinity.Buffer, error) {
	own := s.cfg.Buffer.TrainerInput.ExperienceBuffer
	memory, reading := int64(own.CapacityMb)<<20, buffer.Reading{ByRollout: s.cfg.CountsRollouts(), TakeTimeout: seconds(own.MaxReadTimeout)}
	if !own.ReplayBuffer.Enable {
		queue := buffer.NewQueue(s.capacity(ex), memory, log)
		queue.Reading, queue.PutTimeout = reading, seconds(s.cfg.Synchronizer.SyncTimeout)
		return queue, nil
	}
	replay := &own.ReplayBuffer
	priority, err := registry.PriorityFuncs.Build(replay.PriorityFn, replay.PriorityFnArgs)
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer.replay_buffer.priority_fn: %w", err)
	}
	options := buffer.ReplayOptions{
		Capacity: own.Capacity, Memory: memory, Priority: priority, Seed: int64(s.cfg.Seed),
		Reading: reading, Lockstep: s.cfg.Synchronizer.SyncStyle == "fixed",
	}
	if replay.ReuseCooldownTime != nil {
		cooldown := seconds(*replay.ReuseCooldownTime)
		options.Cooldown = &cooldown
	}
	return buffer.NewReplay(options, log), nil
}
