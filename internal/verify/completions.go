package verify

import (
	"fmt"
	"math"
	"strconv"

	"github.com/trinity-go/trinity/internal/wire/openai"
)

// scored reads vLLM's prompt_logprobs. It returns the log-probabilities of the given tokens and the
// most likely token at each position.
func scored(tokens []int32, given []map[string]openai.PromptLogprob) (logprobs []float64, best []int32, err error) {
	if len(given) != len(tokens) {
		return nil, nil, fmt.Errorf("%d prompt_logprobs for %d tokens of the prompt", len(given), len(tokens))
	}
	logprobs, best = make([]float64, len(tokens)), make([]int32, len(tokens))
	for t, token := range tokens {
		logprobs[t], best[t] = math.NaN(), -1
		for key, value := range given[t] {
			id, err := strconv.ParseInt(key, 10, 32)
			if err != nil || id < 0 {
				return nil, nil, fmt.Errorf("prompt_logprobs: %q is not a token id", key)
			}
			if int32(id) == token && value.Logprob != nil {
				logprobs[t] = float64(*value.Logprob)
			}
			if value.Rank != nil && *value.Rank == 1 {
				best[t] = int32(id)
			}
		}
		if t > 0 && math.IsNaN(logprobs[t]) {
			return nil, nil, fmt.Errorf("prompt_logprobs: position %d lacks the prompt's token %d", t, token)
		}
	}
	return logprobs, best, nil
}
