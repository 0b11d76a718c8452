package config

const replayKey = "buffer.trainer_input.experience_buffer.replay_buffer"

// replay is how the experience buffer is read again.
func (c *Config) replay() *ReplayBuffer { return &c.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer }
