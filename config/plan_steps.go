package config

import "fmt"

// steps counts steps and tokens.
func (c *planner) steps(s *StagePlan) {
	length := int64(*c.Model.MaxModelLen)
	if c.Explores {
		s.GroupSize, s.TasksPerStep = c.Method.GroupSize, c.Buffer.BatchSize
	}
	if c.Trains {
		s.ExperiencesPerStep = c.Batch.Train * c.Batch.PerRow
		s.OptimizerSteps = c.Batch.Epochs * ceil(c.Batch.Train, c.Batch.Mini)
		s.TokensPerStep = int64(s.ExperiencesPerStep) * length
		s.MicroBatchTokens = c.Batch.MicroTokens
	}
	switch {
	case c.Mode == "bench":
		s.StepsWhy = "evaluates checkpoints, without steps"
	case c.ReadsDataset:
		s.TrainSteps, s.StepsWhy = c.offlineSteps()
	case c.Mode == "train":
		s.StepsWhy = "as many as the explorer's experiences give"
		if n := firstSet(c.Trainer.TotalSteps, c.Buffer.TotalSteps); n != nil {
			s.TrainSteps, s.StepsWhy = int64(*n), "as set by total_steps"
		}
	default:
		s.ExploreSteps, s.StepsWhy = c.exploreSteps()
		s.Tasksets = c.mixture()
		if c.Together {
			s.TrainSteps = c.TrainSteps(s.ExploreSteps)
			s.LastExperiences = c.lastBatch(s)
			if c.Trainer.TotalSteps != nil {
				s.StepsWhy += "; train steps as set by trainer.total_steps"
			}
		}
	}
}

// TrainSteps returns the number of train steps in mode both: trainer.total_steps, or as many as the
// explore steps feed. A train step that finds less than it asks for takes what there is, so each
// explore step feeds at least one.
func (c *Settled) TrainSteps(exploreSteps int64) int64 {
	if n := c.Trainer.TotalSteps; n != nil {
		return int64(*n)
	}
	rollouts := int64(max(c.Batch.Rollouts, 1))
	return max(exploreSteps, (exploreSteps*int64(c.Batch.StepRollouts)+rollouts-1)/rollouts)
}

// lastBatch returns the size of the last train step if each rollout gives one experience; 0 if it is
// a whole batch or not known.
func (c *planner) lastBatch(s *StagePlan) int {
	if c.Batch.CountsRollouts || c.Batch.Rollouts != c.Buffer.TrainBatchSize || c.Trainer.TotalSteps != nil || s.TrainSteps == s.ExploreSteps {
		return 0
	}
	return int(s.ExploreSteps * int64(c.Batch.StepRollouts) % int64(c.Buffer.TrainBatchSize))
}

func (c *planner) exploreSteps() (int64, string) {
	if n := c.Buffer.TotalSteps; n != nil {
		return int64(*n), "as set by buffer.total_steps"
	}
	rows, known := 0, true
	for _, t := range c.Data.Tasksets {
		if n, ok := c.facts.Rows[t.Key]; !t.Eval {
			rows, known = rows+n, known && ok
		}
	}
	if !known {
		return 0, "one pass over the taskset, whose length is not known yet" + times(c.Buffer.TotalEpochs)
	}
	return int64(max(1, rows*c.Buffer.TotalEpochs/c.Buffer.BatchSize)),
		fmt.Sprintf("%d tasks × total_epochs %d / batch_size %d", rows, c.Buffer.TotalEpochs, c.Buffer.BatchSize)
}

func (c *planner) offlineSteps() (int64, string) {
	if n := firstSet(c.Trainer.TotalSteps, c.Buffer.TotalSteps); n != nil {
		return int64(*n), "as set by total_steps"
	}
	epochs := c.Buffer.TotalEpochs
	if n := c.Buffer.TrainerInput.ExperienceBuffer.TotalEpochs; n != nil {
		epochs = *n
	}
	rows, ok := c.facts.Rows["buffer.trainer_input.experience_buffer"]
	if c.Buffer.TrainerInput.ExperienceBuffer.Format.Packing {
		return 0, fmt.Sprintf("one pass over texts packed into sequences of %d tokens, which are counted when the run starts",
			*c.Model.MaxModelLen) + times(epochs)
	}
	if !ok {
		return 0, "one pass over the dataset, whose length is not known yet" + times(epochs)
	}
	return int64(max(1, rows*epochs/c.Buffer.TrainBatchSize)),
		fmt.Sprintf("%d rows × total_epochs %d / train_batch_size %d", rows, epochs, c.Buffer.TrainBatchSize)
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(", %d times", n)
}

// firstSet returns the first number that is set.
func firstSet(all ...*int) *int {
	for _, p := range all {
		if p != nil {
			return p
		}
	}
	return nil
}

func ceil(a, b int) int { return (a + b - 1) / max(b, 1) }
