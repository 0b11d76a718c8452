package rows

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	dimensions := []string{"accuracy", "grammar", "informativeness", "coherence"}
	prompt := "You grade how good training examples for a language model are. Give each of these a number from 1 (bad) to 5 " +
		"(excellent): accuracy, whether what is said is true and can be " +
		"checked; grammar, whether the language is right; informativeness, whether it holds anything worth learning; " +
		"coherence, whether its parts follow from and fit to one another. " +
		"What is wrong weighs more than what is badly put. " + answerForm(dimensions...)
	registry.TaskOperators.Register("llm_quality_score_filter",
		"Keeps rows whose quality, as a model judges it, is within the range. Statistics: llm_quality_score, "+
			"llm_quality_record. "+
			llmDoc,
		func() trinity.TaskOperator {
			return &llmQuality{llmScore("llm_quality", prompt, dimensions...)}
		})
}

// llmQuality filters by quality.
type llmQuality struct {
	LLMScore `yaml:",inline"`
}
