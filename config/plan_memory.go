package config

import (
	"errors"
	"fmt"
)

// planMemory takes over what the engine says that it will take.
func (c *Config) planMemory(s *StagePlan, f Facts) {
	s.Trainable, s.Memory, s.DoesNotFit = f.Model.Trained, f.Memory, f.DoesNotFit
	for _, m := range s.Memory {
		s.MemorySum += m.Bytes
	}
}

// Fits is an error where a stage needs more memory than there is: it names what would fit.
func (p *Plan) Fits() error {
	for _, s := range p.Stages {
		switch {
		case s.DoesNotFit != "" && s.Name != "":
			return fmt.Errorf("stage %s: %s", s.Name, s.DoesNotFit)
		case s.DoesNotFit != "":
			return errors.New(s.DoesNotFit)
		}
	}
	return nil
}

// MicroTokens is the most tokens that a micro-batch can have: what trainer.max_token_len_per_gpu allows, but never less than one sequence, or one
// pair, and never more than those of an optimizer step. No sequence is longer than max_model_len.
func (c *Config) MicroTokens() int {
	length, mini := c.PerRow()**c.Model.MaxModelLen, c.MiniBatch()
	if c.TrainsCritic() {
		if n := c.Critic().PpoMiniBatchSize; n != nil {
			mini = max(mini, *n)
		}
	}
	return max(min(*c.Trainer.MaxTokenLenPerGPU, mini*length), length)
}

// Sequences is the most rollouts that run at once: each runner works on one group.
func (c *Config) Sequences() int {
	e, group := &c.Explorer, max(1, c.GroupSize())
	n := e.RunnerPerModel * e.RolloutModel.EngineNum * group
	if c.explores() && len(c.Buffer.ExplorerInput.EvalTasksets) == 0 {
		n = min(n, c.BatchesUnderWay()*c.Buffer.BatchSize*group)
	}
	return n
}

// GradientCheckpointing reports whether the trainer may compute activations again in the backward pass instead of keeping them:
// enable_gradient_checkpointing of veRL's model section. It does so where memory is short; the results have the same bits.
func (c *Config) GradientCheckpointing() bool {
	allowed, set := c.gradientCheckpointing().(bool)
	return allowed || !set
}

const gradientCheckpointingKey = trainerConfigKey + ".actor_rollout_ref.model.enable_gradient_checkpointing"

func (c *Config) gradientCheckpointing() any {
	tree, _ := c.Trainer.TrainerConfig["actor_rollout_ref"].(map[string]any)
	model, _ := tree["model"].(map[string]any)
	return model["enable_gradient_checkpointing"]
}
