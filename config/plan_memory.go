package config

import (
	"errors"
	"fmt"
)

// memory fills in the memory that the engines plan.
func (c *planner) memory(s *StagePlan) {
	f := c.facts
	s.Trainable, s.Memory, s.DoesNotFit = f.Model.Trained, f.Memory, f.DoesNotFit
	for _, m := range s.Memory {
		s.MemorySum += m.Bytes
	}
}

// Fits returns an error if the run cannot start on this machine: local models or datasets are
// missing, or a stage needs more memory than there is. The error then names what would fit.
func (p *Plan) Fits() error {
	if err := p.missing.orNil(); err != nil {
		return err
	}
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

const gradientCheckpointingKey = trainerConfigKey + ".actor_rollout_ref.model.enable_gradient_checkpointing"

func (c *Config) gradientCheckpointing() any {
	tree, _ := c.Trainer.TrainerConfig["actor_rollout_ref"].(map[string]any)
	model, _ := tree["model"].(map[string]any)
	return model["enable_gradient_checkpointing"]
}
