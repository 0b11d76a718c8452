package settle

import (
	"fmt"

	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/feed"
)

// checkWords returns an error if a model behind an API of text cannot answer in place of the rollout model: the algorithm would
// read its log-probabilities, or a workflow asks with tokens.
func checkWords(s *config.Settled, objective *algorithm.Algorithm, tasksets []feed.Taskset) error {
	name := s.Model.ExternalModel.ModelName
	if !s.Model.ExternalModel.Enable || !s.Samples {
		return nil
	}
	if s.Explores && objective != nil && objective.Needs().Behaviour {
		return s.At("algorithm.algorithm_type", fmt.Sprintf("algorithm %s reads log-probabilities of the policy that sampled, and %s, "+
			"behind an API, gives none", objective.Def.Type, name), "use one that explores and reads none, such as raft")
	}
	for i := range tasksets {
		t := &tasksets[i]
		for _, needs := range t.Needs() {
			if needs.Turns || needs.Program {
				return s.At(t.Key, fmt.Sprintf("workflow %s continues tokens over several turns, and %s, behind an API, takes messages "+
					"alone", t.DefaultWorkflowType, name), "choose a workflow of one turn, such as simple_workflow or math_workflow")
			}
		}
	}
	return nil
}
