package config

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// ChangedSampling returns the keys that change the distribution of tokens that are trained on: training
// takes the tokens for samples of the model's own. why says what is then wrong. instead follows "leave it
// out" in the hint and says what else to do. Evaluations may have any values, and so may algorithms that
// learn the text itself.
func ChangedSampling(s *Settled, why, instead string) (all []Refusal) {
	if !s.Explores && !s.Records() || s.Method.Imitates {
		return nil
	}
	why = " for tokens that are trained on: " + why
	refuse := func(owner, name string, value any) {
		all = append(all, Refusal{Key: s.Inherited(owner, name), What: fmt.Sprint(value, why), Hint: "leave it out" + instead})
	}
	const model = "explorer.rollout_model"
	m := &s.Explorer.RolloutModel
	if *m.RepetitionPenalty != 1 {
		refuse(model, "repetition_penalty", *m.RepetitionPenalty)
	}
	if *m.MinResponseTokens > 1 {
		refuse(model, "min_response_tokens", *m.MinResponseTokens)
	}
	truncates := func(owner string, topP *float64, topK *int) {
		if topP != nil && *topP < 1 {
			refuse(owner, "top_p", *topP)
		}
		if topK != nil && *topK > 0 {
			refuse(owner, "top_k", *topK)
		}
	}
	if s.Records() {
		truncates(model, m.TopP, m.TopK)
	}
	for _, t := range s.Data.Tasksets {
		if t.Eval {
			continue
		}
		truncates(t.Key+".rollout_args", t.RolloutArgs.TopP, t.RolloutArgs.TopK)
		w, err := registry.Workflows.Build(t.DefaultWorkflowType, s.ArgsOfWorkflow(t)) // another check reports the error
		if p := trinity.RequirementsOf(w).TopP; err == nil && p > 0 && p < 1 {
			all = append(all, Refusal{Key: t.Key + ".workflow_args", What: fmt.Sprintf("top_p %v of %s%s", p, t.DefaultWorkflowType, why),
				Hint: "set it to 1 there" + instead})
		}
	}
	return all
}
