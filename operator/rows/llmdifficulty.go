package rows

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	dimensions := []string{"linguistic_complexity", "conceptual_depth", "prior_knowledge", "step_complexity", "ambiguity"}
	prompt := "You grade how hard training examples for a language model are. Give each of these a number from 1 (a " +
		"beginner has no trouble) over 3 (some schooling is needed) to 5 " +
		"(work for an expert): linguistic_complexity, how demanding words and sentences are; conceptual_depth, how abstract " +
		"the matter is; prior_knowledge, how much has to be known " +
		"before; step_complexity, how many steps lead to the answer; ambiguity, how many ways there are to understand it. " +
		"Judge what is asked, not how well it is written. " + answerForm(dimensions...)
	registry.TaskOperators.Register("llm_difficulty_score_filter",
		"Keeps rows whose difficulty, as a model judges it, is within the range. Statistics: "+
			"llm_difficulty_score, llm_difficulty_record. "+
			llmDoc,
		func() trinity.TaskOperator {
			return &llmDifficulty{llmScore("llm_difficulty", prompt, dimensions...)}
		})
}

// llmDifficulty filters by difficulty.
type llmDifficulty struct {
	LLMScore `yaml:",inline"`
}
