package algorithm

import (
	"fmt"

	"github.com/trinity-go/trinity"
)

// InPipeline returns the advantage function that scores groups before the trainer gets them, or nil
// if the trainer scores them.
func (a *Algorithm) InPipeline() trinity.Advantage {
	if a.InTrainer() != nil {
		return nil
	}
	return partsApart(a.Advantage)
}

// InTrainer returns the advantage function with which the trainer scores its batches, or nil if
// they are scored already.
func (a *Algorithm) InTrainer() trinity.Advantage {
	if a.Advantage == nil || !a.Advantage.Needs().Batch {
		return nil
	}
	return partsApart(a.Advantage)
}

// Needs returns what the advantage function needs from the trainer, and whether any part reads the log-probabilities of the
// policy that sampled.
func (a *Algorithm) Needs() (needs trinity.Needs) {
	if a.Advantage != nil {
		needs = a.Advantage.Needs()
	}
	needs.Behaviour = a.behaviour
	return needs
}

// Admit returns an error if the algorithm cannot learn from an experience: a model behind an API wrote it.
func (a *Algorithm) Admit(e *trinity.Experience) error {
	if e.Source == "" || e.IsExpert || e.Logprobs != nil || !a.behaviour || e.TrainedTokens() == 0 {
		return nil
	}
	return fmt.Errorf("experience %s was written by %s, which gives no log-probabilities, and algorithm %s reads those of the policy that "+
		"sampled: use one that reads none, sft, raft, dpo or cpt", e.ID, e.Source, a.Def.Type)
}
