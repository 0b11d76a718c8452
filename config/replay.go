package config

const replayKey = "buffer.trainer_input.experience_buffer.replay_buffer"

// replay returns the replay settings of the experience buffer.
func (s *Settled) replay() *ReplayBuffer { return &s.Buffer.TrainerInput.ExperienceBuffer.ReplayBuffer }
