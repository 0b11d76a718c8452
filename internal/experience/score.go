package experience

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// An engine computes a score as a value: that of a dummy token behind the sequence, which alone is
// trained. So a reward model needs no passes of its own.

// Scoring is what an engine says about its score head.
type Scoring struct {
	Engine string  // begins errors
	Head   bool    // the engine has one
	Option string  // opens an engine with one
	PAD    []int32 // that config.json names, if any
}

// States returns, for each experience, the sequence whose last value is its score. It is an error if the
// engine has no score head, if want asks for more than scores, or if an experience has no tokens.
func (s Scoring) States(batch []*trinity.Experience, want trinity.Streams) ([]*trinity.Experience, error) {
	if !s.Head {
		return nil, fmt.Errorf("%s: the loss needs scores, but this engine has no score head: open it with %s", s.Engine, s.Option)
	}
	if want != (trinity.Streams{Score: true}) {
		return nil, fmt.Errorf("%s: an engine with a score head computes scores only, not log-probabilities, values or entropies: "+
			"ask it for scores", s.Engine)
	}
	states := make([]*trinity.Experience, len(batch))
	for i, x := range batch {
		if len(x.Tokens) == 0 {
			return nil, fmt.Errorf("%s: experience %s has no tokens", s.Engine, x.ID)
		}
		states[i] = ScoredState(x.ID, x.Tokens, s.PAD)
	}
	return states, nil
}

// ScoredState appends a dummy token to a sequence and masks all others, so that the engine computes
// the hidden state that follows the last token but padding.
func ScoredState(id trinity.ExperienceID, tokens, pad []int32) *trinity.Experience {
	n := scoredToken(tokens, pad) + 1
	x := &trinity.Experience{ID: id, Tokens: append(slices.Clone(tokens[:n]), tokens[n-1]), Mask: make([]bool, n+1)}
	x.Mask[n] = true
	return x
}

// scoredToken returns the position of the token at which a sequence is scored.
func scoredToken(tokens, pad []int32) int {
	if len(pad) == 0 {
		return len(tokens) - 1
	}
	for t := len(tokens) - 1; t > 0; t-- {
		if tokens[t] != pad[0] {
			return t
		}
	}
	return 0
}

// Scores returns the values of the last tokens as scores.
func Scores(stats []trinity.TokenStats) []trinity.TokenStats {
	scores := make([]trinity.TokenStats, len(stats))
	for i, s := range stats {
		scores[i].Score = s.Value[len(s.Value)-1]
	}
	return scores
}

// Loss returns the batch and the loss of a reward model as an engine computes them: the scores are values
// of states.
func (s Scoring) Loss(b *trinity.Batch, loss trinity.Loss) (*trinity.Batch, trinity.Loss, error) {
	states, err := s.States(b.Experiences, loss.Streams())
	if err != nil {
		return nil, nil, err
	}
	whole, err := s.States(b.Whole, loss.Streams())
	return &trinity.Batch{Step: b.Step, Experiences: states, Whole: whole}, scoreLoss{loss, b}, err
}

// scoreLoss is a loss of scores as a loss of values.
type scoreLoss struct {
	loss  trinity.Loss
	batch *trinity.Batch // as the loss knows it
}

// Streams implements trinity.Loss.
func (scoreLoss) Streams() trinity.Streams { return trinity.Streams{Value: true} }

// Loss implements trinity.Loss.
func (l scoreLoss) Loss(_ *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, metrics, err := l.loss.Loss(l.batch, Scores(now))
	if err != nil {
		return nil, nil, err
	}
	values := make([]trinity.TokenGrads, len(grads))
	for i, g := range grads[:min(len(grads), len(now))] {
		if g.Logprob != nil || g.Entropy != nil || g.Value != nil || g.Divergence != nil {
			return nil, nil, fmt.Errorf("the loss reads scores and returned derivatives by streams of tokens of experience %s",
				l.batch.Experiences[i].ID)
		}
		values[i].Value = make([]float32, len(now[i].Value))
		values[i].Value[len(now[i].Value)-1] = g.Score
	}
	return values, metrics, nil
}
