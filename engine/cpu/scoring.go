package cpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// A reward model in training and one that only scores run the same passes: a score is the value of
// a state.

// scores is Forward of an engine that trains a reward model.
func (e *Engine) scores(ctx context.Context, batch []*trinity.Experience, want trinity.Streams) ([]trinity.TokenStats, error) {
	if err := e.checkScores(want); err != nil {
		return nil, err
	}
	states, err := experience.ScoredStates(batch, e.cfg.PAD)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	values := trinity.Streams{Value: true}
	if err := e.check(states, values); err != nil {
		return nil, err
	}
	stats, err := e.passes.score(ctx, e.weights, states, values)
	return experience.Scores(stats), err
}

// scored returns the batch and the loss of a reward model as passes compute them.
func (e *Engine) scored(b *trinity.Batch, loss trinity.Loss) (*trinity.Batch, trinity.Loss, error) {
	if err := e.checkScores(loss.Streams()); err != nil {
		return nil, nil, err
	}
	states, values, err := experience.Scored(b, loss, e.cfg.PAD)
	if err != nil {
		return nil, nil, fmt.Errorf("cpu: %w", err)
	}
	return states, values, nil
}

// checkScores returns an error unless the engine has a score head and the loss reads only scores.
func (e *Engine) checkScores(want trinity.Streams) error {
	if !e.opts.Score {
		return errors.New("cpu: the loss needs scores, but this engine has no score head: open it with Options.Score")
	}
	if err := experience.CheckScores(want); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	return nil
}
