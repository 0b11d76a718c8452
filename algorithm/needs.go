package algorithm

import "github.com/trinity-go/trinity"

// InPipeline returns the advantage function that scores groups before the trainer gets them, or nil
// if the trainer scores them.
func (a *Algorithm) InPipeline() trinity.Advantage {
	if a.InTrainer() != nil {
		return nil
	}
	return a.Advantage
}

// InTrainer returns the advantage function with which the trainer scores its batches, or nil if
// they are scored already.
func (a *Algorithm) InTrainer() trinity.Advantage {
	if a.Advantage == nil || !a.Advantage.Needs().Batch {
		return nil
	}
	return a.Advantage
}

// Needs returns what the advantage function needs from the trainer.
func (a *Algorithm) Needs() trinity.Needs {
	if a.Advantage == nil {
		return trinity.Needs{}
	}
	return a.Advantage.Needs()
}
