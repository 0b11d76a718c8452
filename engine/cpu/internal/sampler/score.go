package sampler

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// scores are those of a prompt's tokens, which the steps write as they compute the prompt.
type scores struct {
	trinity.PromptScores
	params  *trinity.SamplingParams
	targets int // ids that are scored at each place beside the prompt's own
}

// newScores returns the scores of a prompt that p asks for, nil for none.
func newScores(tokens []int32, p *trinity.SamplingParams, vocab int) (*scores, error) {
	places := max(0, len(tokens)-1)
	demand := len(p.PromptTargets) > 0 || p.PromptDraws != 0 || p.ScoreFrom != 0
	switch {
	case !p.ScorePrompt && demand:
		return nil, fmt.Errorf("sampler: targets, draws and the first place of a prompt's scores need ScorePrompt")
	case !p.ScorePrompt:
		return nil, nil
	case p.ScoreFrom < 0 || p.ScoreFrom > places:
		return nil, fmt.Errorf("sampler: the prompt's scores begin at place %d; expected 0 to %d", p.ScoreFrom, places)
	case p.PromptDraws < 0 || p.PromptDraws > trinity.MaxTopLogprobs:
		return nil, fmt.Errorf("sampler: %d draws at each token of the prompt; expected 0 to %d", p.PromptDraws, trinity.MaxTopLogprobs)
	case places > 0 && len(p.PromptTargets)%places != 0 || places == 0 && len(p.PromptTargets) > 0:
		return nil, fmt.Errorf("sampler: %d targets for the %d tokens behind a prompt's first; expected as many for each",
			len(p.PromptTargets), places)
	}
	for i, t := range p.PromptTargets {
		if int(t) >= vocab {
			return nil, fmt.Errorf("sampler: target %d of the prompt is %d; expected up to %d, or less than 0 for none", i, t, vocab-1)
		}
	}
	s := &scores{params: p}
	s.Logprobs = undefined(places)
	if p.TopLogprobs > 0 {
		s.TopLogprobs = make([][]trinity.TokenLogprob, places)
	}
	if len(p.PromptTargets) > 0 {
		s.Targets, s.targets = undefined(len(p.PromptTargets)), len(p.PromptTargets)/places
	}
	if p.PromptDraws > 0 {
		s.Draws = make([][]trinity.TokenLogprob, places)
	}
	return s, nil
}

// undefined returns n numbers that are none.
func undefined(n int) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = float32(math.NaN())
	}
	return all
}

// reusable returns how many tokens of a prompt from place done on need no computing if the cache has them:
// those before the first place that is scored.
func (p *prompt) reusable() int {
	if p.scores == nil {
		return len(p.tokens) - p.done
	}
	return p.scores.params.ScoreFrom - p.done
}

// scored is a row of a step that scores the token after a prompt's token.
type scored struct {
	prompt *prompt
	at     int // of the prompt's token
	row    int // of the step's hidden states
}

// write writes the score, from a row of logits.
func (x scored) write(d *drawer, logits []float32) {
	s := x.prompt.scores
	ids, places := []int32{x.prompt.tokens[x.at+1]}, []int{-1}
	for i := x.at * s.targets; i < (x.at+1)*s.targets; i++ {
		if t := s.params.PromptTargets[i]; t >= 0 {
			ids, places = append(ids, t), append(places, i)
		}
	}
	values := make([]float32, len(ids))
	kernel.Logprobs(values, logits, ids)
	s.Logprobs[x.at] = values[0]
	for i, place := range places[1:] {
		s.Targets[place] = values[1+i]
	}
	if s.TopLogprobs != nil {
		s.TopLogprobs[x.at] = d.top(logits, s.params.TopLogprobs, 1)
	}
	if s.Draws != nil {
		s.Draws[x.at] = s.Draws[x.at][:0] // a later completion may have the prompt computed again
	}
	for i := range s.params.PromptDraws {
		q := query{temperature: s.params.Temperature, topP: 1, penalty: 1, u: uniform(s.params.Seed, i, x.at, ofPrompt)}
		drawn := trinity.TokenLogprob{Token: d.choose(logits, &q), Logprob: float32(math.NaN())}
		if drawn.Token >= 0 { // else the logits are no numbers, which the completion says
			drawn.Logprob = kernel.Logprob(logits, drawn.Token)
		}
		s.Draws[x.at] = append(s.Draws[x.at], drawn)
	}
}
