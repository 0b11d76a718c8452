package cpu

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// A reward model in training and one that only scores run the same passes: a score is the value of
// a state.

func (e *Engine) scoring() experience.Scoring {
	return experience.Scoring{Engine: "cpu", Head: e.opts.Score, Option: "Options.Score", PAD: e.cfg.PAD}
}

// scores is Forward of an engine that trains a reward model.
func (e *Engine) scores(ctx context.Context, batch []*trinity.Experience, want trinity.Streams) ([]trinity.TokenStats, error) {
	states, err := e.scoring().States(batch, want)
	if err != nil {
		return nil, err
	}
	stats, err := e.score(ctx, e.weights, states, trinity.Streams{Value: true})
	return experience.Scores(stats), err
}
