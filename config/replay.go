package config

const replayKey = "buffer.trainer_input.experience_buffer.replay_buffer"

// replay is how the experience buffer is read again.
func (s *Settled) replay() *ReplayBuffer { return &s.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer }
