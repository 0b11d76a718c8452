package sampler

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// scores are those of a prompt's tokens, which the steps write as they compute the prompt.
type scores struct {
	trinity.PromptScores
	most int // likely tokens at each place
}

func newScores(tokens, most int) *scores {
	s := &scores{most: most}
	s.Logprobs = make([]float32, tokens)
	if most > 0 {
		s.TopLogprobs = make([][]trinity.TokenLogprob, tokens)
	}
	return s
}

// scored is a row of a step that scores the token after a prompt's token.
type scored struct {
	prompt *prompt
	at     int // of the prompt's token
	row    int // of the logits
}

// write writes the score.
func (x scored) write(d *drawer, logits kernel.Matrix) {
	row, to := logits.Row(x.row), x.prompt.scores
	to.Logprobs[x.at] = d.logprob(row, x.prompt.tokens[x.at+1], 1)
	if to.most > 0 {
		to.TopLogprobs[x.at] = d.top(row, to.most, 1)
	}
}

// scoreRoom returns the rows of the head that a step has left for prompts whose tokens are scored.
// Sequences keep one row each, except those that wait for such a prompt, so there is always a row.
func (s *scheduler) scoreRoom() int {
	room := s.opts.MaxSequences - len(s.scored)
	for _, q := range s.running {
		if q.prompt == nil || q.prompt.scores == nil || q.prompt.complete() {
			room--
		}
	}
	return room
}
