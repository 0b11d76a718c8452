package cpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// rewardScorer scores whole sequences with a frozen model that has a classification head
// (…ForSequenceClassification). It implements trinity.Scorer; concurrent calls run one after
// another.
type rewardScorer struct{ engine *Engine }

// openRewardModel opens a reward model. It reads opts.ModelPath, MaxTokens, DType and Pool.
func openRewardModel(opts Options) (*rewardScorer, error) {
	e, err := Open(Options{ModelPath: opts.ModelPath, MaxTokens: opts.MaxTokens, DType: opts.DType, Pool: opts.Pool, ForwardOnly: true, Score: true})
	if err != nil {
		return nil, err
	}
	return &rewardScorer{e}, nil
}

// Labels returns the number of scores that a sequence gets.
func (r *rewardScorer) Labels() int { return r.engine.cfg.NumLabels }

// Score returns the scores [Labels] of each sequence at its last token that is not padding, as
// transformers does for one sequence at a time: without a pad_token_id in config.json it scores the
// last token, and the first one of a sequence that is all padding. Sequences with a common prefix
// share its computation.
func (r *rewardScorer) Score(ctx context.Context, sequences [][]int32) ([][]float32, error) {
	e := r.engine
	states := make([]*trinity.Experience, len(sequences))
	for i, tokens := range sequences {
		if len(tokens) == 0 || len(tokens) > e.cfg.MaxPositions {
			return nil, fmt.Errorf("cpu: sequence %d has %d tokens; the reward model reads 1 to %d", i, len(tokens), e.cfg.MaxPositions)
		}
		states[i] = experience.ScoredState(trinity.ExperienceID{Run: i}, tokens, e.cfg.PAD)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.borrow(ctx)
	if err != nil {
		return nil, err
	}
	defer e.of.giveBack()
	want := trinity.Streams{Value: true}
	if err := s.check(states, want); err != nil {
		return nil, err
	}
	scores := make([][]float32, 0, len(sequences))
	err = s.eachPart(states, func(part []*trinity.Experience) error {
		if err := s.forward(ctx, e.weights, part, want, false); err != nil {
			return err
		}
		of := make([][]float32, len(part))
		for _, u := range s.packing.uses {
			of[u.experience] = slices.Clone(s.head.space.scores.Row(u.head))
		}
		scores = append(scores, of...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return scores, nil
}

// Close implements trinity.Scorer.
func (r *rewardScorer) Close() error { return r.engine.Close() }
