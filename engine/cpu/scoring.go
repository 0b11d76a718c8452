package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// A score is computed as a value: that of a dummy token behind the sequence, which alone is
// trained. So a reward model in training and one that only scores run the same passes.

// scores is Forward of an engine that trains a reward model.
func (e *Engine) scores(ctx context.Context, batch []*trinity.Experience, want trinity.Streams) ([]trinity.TokenStats, error) {
	if err := e.checkScores(want); err != nil {
		return nil, err
	}
	states, err := e.scoredStates(batch)
	if err != nil {
		return nil, err
	}
	values := trinity.Streams{Value: true}
	if err := e.check(states, values); err != nil {
		return nil, err
	}
	stats, err := e.passes.score(ctx, e.weights, states, values)
	return scoresOf(stats), err
}

// scored returns the batch and the loss of a reward model as passes compute them.
func (e *Engine) scored(b *trinity.Batch, loss trinity.Loss) (*trinity.Batch, trinity.Loss, error) {
	if err := e.checkScores(loss.Streams()); err != nil {
		return nil, nil, err
	}
	states, err := e.scoredStates(b.Experiences)
	if err != nil {
		return nil, nil, err
	}
	whole, err := e.scoredStates(b.Whole)
	return &trinity.Batch{Step: b.Step, Experiences: states, Whole: whole}, scoreLoss{loss, b}, err
}

// checkScores returns an error unless the engine has a score head and the loss reads only scores.
func (e *Engine) checkScores(want trinity.Streams) error {
	switch {
	case !e.opts.Score:
		return errors.New("cpu: the loss needs scores, but this engine has no score head: open it with Options.Score")
	case want != trinity.Streams{Score: true}:
		return errors.New("cpu: an engine with a score head computes scores only, not log-probabilities, values or entropies: ask it for scores")
	}
	return nil
}

// scoredStates returns, for each experience, the sequence whose value is the score.
func (e *Engine) scoredStates(batch []*trinity.Experience) ([]*trinity.Experience, error) {
	states := make([]*trinity.Experience, len(batch))
	for i, x := range batch {
		if len(x.Tokens) == 0 {
			return nil, fmt.Errorf("cpu: experience %s has no tokens", x.ID)
		}
		states[i] = e.scoredState(x.ID, x.Tokens)
	}
	return states, nil
}

// scoredState appends a dummy token to a sequence and masks all others, so that the engine computes
// the hidden state that follows the last token but padding.
func (e *Engine) scoredState(id trinity.ExperienceID, tokens []int32) *trinity.Experience {
	n := e.scoredToken(tokens) + 1
	x := &trinity.Experience{ID: id, Tokens: append(slices.Clone(tokens[:n]), tokens[n-1]), Mask: make([]bool, n+1)}
	x.Mask[n] = true
	return x
}

// scoredToken returns the position of the token at which a sequence is scored.
func (e *Engine) scoredToken(tokens []int32) int {
	pad := e.cfg.PAD
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

// scoresOf returns the values of the last tokens as scores.
func scoresOf(stats []trinity.TokenStats) []trinity.TokenStats {
	scores := make([]trinity.TokenStats, len(stats))
	for i, s := range stats {
		scores[i].Score = s.Value[len(s.Value)-1]
	}
	return scores
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
	grads, metrics, err := l.loss.Loss(l.batch, scoresOf(now))
	if err != nil {
		return nil, nil, err
	}
	values := make([]trinity.TokenGrads, len(grads))
	for i, g := range grads[:min(len(grads), len(now))] {
		if g.Logprob != nil || g.Entropy != nil || g.Value != nil || g.Divergence != nil {
			return nil, nil, fmt.Errorf("cpu: the loss reads scores and returned derivatives by streams of tokens of experience %s",
				l.batch.Experiences[i].ID)
		}
		values[i].Value = make([]float32, len(now[i].Value))
		values[i].Value[len(now[i].Value)-1] = g.Score
	}
	return values, metrics, nil
}
