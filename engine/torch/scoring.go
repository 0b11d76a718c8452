package torch

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
)

// The worker has no scores: a score travels as the value of a dummy token behind the sequence.

// scores is Forward of an engine that trains a reward model.
func (e *Engine) scores(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if err := e.checkScores(want); err != nil {
		return nil, err
	}
	states, err := experience.ScoredStates(b.Experiences, e.cfg.PAD)
	if err != nil {
		return nil, fmt.Errorf("torch: %w", err)
	}
	stats, err := e.score(ctx, e.name, &trinity.Batch{Experiences: states}, trinity.Streams{Value: true}, false)
	return experience.Scores(stats), err
}

// scored returns the batch and the loss of a reward model as the worker computes them.
func (e *Engine) scored(b *trinity.Batch, loss trinity.Loss) (*trinity.Batch, trinity.Loss, error) {
	if err := e.checkScores(loss.Streams()); err != nil {
		return nil, nil, err
	}
	states, values, err := experience.Scored(b, loss, e.cfg.PAD)
	if err != nil {
		return nil, nil, fmt.Errorf("torch: %w", err)
	}
	return states, values, nil
}

// checkScores returns an error unless the engine has a score head and the loss reads only scores.
func (e *Engine) checkScores(want trinity.Streams) error {
	if e.spec.Head != engine.ScoreHead {
		return errors.New("torch: the loss needs scores, but this engine has no score head: open it with TrainerSpec.Head score")
	}
	if err := experience.CheckScores(want); err != nil {
		return fmt.Errorf("torch: %w", err)
	}
	return nil
}

// scorer is a reward model that scores.
type scorer struct{ engine engine.Trainer }

// Labels implements trinity.Scorer.
func (*scorer) Labels() int { return 1 }

// Score implements trinity.Scorer.
func (s *scorer) Score(ctx context.Context, sequences [][]int32) ([][]float32, error) {
	b := &trinity.Batch{}
	for i, tokens := range sequences {
		b.Experiences = append(b.Experiences, &trinity.Experience{ID: trinity.ExperienceID{Run: i}, Tokens: tokens})
	}
	stats, err := s.engine.Forward(ctx, b, trinity.Streams{Score: true})
	scores := make([][]float32, len(stats))
	for i := range stats {
		scores[i] = []float32{stats[i].Score}
	}
	return scores, err
}

// Close implements trinity.Scorer.
func (s *scorer) Close() error { return s.engine.Close() }
