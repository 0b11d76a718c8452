package config

const replayKey = "buffer.trainer_input.experience_buffer.replay_buffer"

// replay is how the experience buffer is read again.
func (c *Settled) replay() *ReplayBuffer { return &c.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer }
