package algorithm

import "github.com/trinity-go/trinity"

// InPipeline is the advantage that scores groups before the trainer gets them; nil where the trainer scores them.
func (a *Algorithm) InPipeline() trinity.Advantage {
	if a.InTrainer() != nil {
		return nil
	}
	return a.Advantage
}

// InTrainer is the advantage that the trainer scores its batches with; nil where they come to it scored.
func (a *Algorithm) InTrainer() trinity.TrainerAdvantage {
	in, _ := a.Advantage.(trinity.TrainerAdvantage)
	return in
}

// Needs are what the advantage reads that only the trainer knows.
func (a *Algorithm) Needs() trinity.Needs {
	if in := a.InTrainer(); in != nil {
		return in.Needs()
	}
	return trinity.Needs{}
}
