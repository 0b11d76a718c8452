package tinker

import (
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// addScores adds what a request wants to know of its prompt's tokens.
func addScores(out *tinker.Samples, in *tinker.Sample, scores trinity.PromptScores) {
	places := len(scores.Logprobs)
	for i := range places - value(in.PromptLogprobsLast, places) { // which targets and draws may have needed
		scores.Logprobs[i] = float32(math.NaN())
		if scores.TopLogprobs != nil {
			scores.TopLogprobs[i] = nil
		}
	}
	if in.PromptLogprobs {
		out.PromptLogprobs = append([]float32{float32(math.NaN())}, scores.Logprobs...)
	}
	if in.TopPromptLogprobs > 0 {
		out.PromptTop = top(append([][]trinity.TokenLogprob{nil}, scores.TopLogprobs...), in.TopPromptLogprobs)
	}
	if in.PromptTargets != nil {
		out.PromptTargets = in.PromptTargets.Answer(scores.Targets)
	}
	if k := in.PromptAlternatives; k > 0 {
		var tokens []int32
		var logprobs []float32
		for _, drawn := range scores.Draws {
			for _, d := range drawn {
				tokens, logprobs = append(tokens, d.Token), append(logprobs, d.Logprob)
			}
		}
		out.PromptAlternatives = &tinker.Alternatives{Tokens: tinker.NewTokens(tokens), Logprobs: tinker.NewFloats(logprobs)}
		shape := []int64{int64(places), int64(k)}
		out.PromptAlternatives.Tokens.Shape, out.PromptAlternatives.Logprobs.Shape = shape, shape
	}
}

// scoring sets what to compute of the prompt's tokens, checked.
func (x *sampler) scoring(in *tinker.Sample, prompt []int32, p *trinity.SamplingParams) (err error) {
	places := len(prompt) - 1
	from, last := places, value(in.PromptLogprobsLast, places)
	switch {
	case in.PromptLogprobsLast != nil && !in.PromptLogprobs:
		return errors.New("prompt_logprobs_last_n: it needs prompt_logprobs")
	case in.PromptLogprobsLast != nil && (last < 1 || last > places):
		return fmt.Errorf("prompt_logprobs_last_n is %d: want 1 to %d, the tokens of the prompt but the first", last, places)
	case in.PromptAlternatives < 0 || in.PromptAlternatives > trinity.MaxTopLogprobs:
		return fmt.Errorf("prompt_alt_tokens_k is %d: want 0 to %d", in.PromptAlternatives, trinity.MaxTopLogprobs)
	}
	if in.PromptLogprobs || in.TopPromptLogprobs > 0 {
		p.ScorePrompt, from = true, places-last
	}
	if in.PromptTargets != nil {
		var first int
		if p.PromptTargets, first, err = in.PromptTargets.IDs(places, x.base.Vocab); err != nil {
			return fmt.Errorf("target_prompt_logprobs: %w", err)
		}
		p.ScorePrompt, from = true, min(from, first)
	}
	if p.PromptDraws = in.PromptAlternatives; p.PromptDraws > 0 {
		p.ScorePrompt, from = true, 0
	}
	if p.ScorePrompt && x.base.OnServers {
		return errors.New("the servers on which this service samples give no log-probabilities of a prompt: use forward of a training " +
			"client, or a service with --sampler cpu")
	}
	if p.ScorePrompt {
		p.ScoreFrom = from
	}
	return nil
}
