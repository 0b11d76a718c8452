package config

// time fills in how long a step and the run take.
func (c *planner) time(s *StagePlan) {
	t := c.facts.Time
	if s.TimeWhy = c.facts.TimeWhy; t == nil {
		return
	}
	s.StepTime, s.TimeIsFor, s.Faster = t.Parts, t.Lengths, t.Faster
	steps := s.TrainSteps
	if c.Explores {
		steps = s.ExploreSteps
	}
	if n := int64(c.Explorer.EvalInterval); t.Evaluation > 0 && n > 0 && steps > 0 {
		times := ceil(steps, n)
		if c.Explorer.EvalOnStartup {
			times++
		}
		s.EvalTime = float64(times) * t.Evaluation
	}
	s.Seconds = float64(s.ExploreSteps)*t.Explore + float64(s.TrainSteps)*t.Train + s.EvalTime
}

// disk fills in the bytes of the checkpoints that stay: in f32, the trained weights with two moments,
// and the model that transformers loads.
func (c *planner) disk(s *StagePlan) {
	if !c.Trains {
		return
	}
	checkpoints := int64(1)
	if n := int64(c.Trainer.SaveInterval); n > 0 && s.TrainSteps > 0 {
		checkpoints = ceil(s.TrainSteps, n)
	}
	if keep := int64(c.Trainer.MaxCheckpointsToKeep); keep > 0 {
		checkpoints = min(checkpoints, keep)
	}
	models := int64(0)
	switch c.Trainer.SaveHfCheckpoint {
	case "always":
		models = checkpoints
	case "last":
		models = 1
	}
	s.Disk = saturated(checkpoints, 12*s.Trainable) + saturated(models, 4*s.Trainable)
	s.DiskHere = c.facts.Machine.Disk
}
