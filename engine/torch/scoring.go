package torch

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
)

// The worker has no scores: a score travels as the value of a dummy token behind the sequence.

func (e *workerModel) scoring() experience.Scoring {
	return experience.Scoring{
		Engine: "torch", Head: e.spec.Head == engine.ScoreHead, Option: "TrainerSpec.Head score", PAD: e.cfg.PAD,
	}
}

// scores is Forward of an engine that trains a reward model.
func (e *workerModel) scores(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	states, err := e.scoring().States(b.Experiences, want)
	if err != nil {
		return nil, err
	}
	stats, err := e.score(ctx, e.name, &trinity.Batch{Experiences: states}, trinity.Streams{Value: true}, false)
	return experience.Scores(stats), err
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
