package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// rewardModels are the reward models of a stage, each opened once.
type rewardModels struct {
	engine string // that opens them
	tokens int    // planned for at once
	say    func(string)
	open   map[string]*trinity.RewardModel
}

// give is the reward function with its reward model, if it uses one.
func (r *rewardModels) give(fn trinity.RewardFunc) (trinity.RewardFunc, error) {
	user, ok := fn.(trinity.RewardModelUser)
	if !ok {
		return fn, nil
	}
	name := user.RewardModelPath()
	model := r.open[name]
	if model == nil {
		var err error
		if model, err = r.load(context.Background(), name); err != nil {
			return nil, fmt.Errorf("reward model: %w", err)
		}
		if r.open == nil {
			r.open = map[string]*trinity.RewardModel{}
		}
		r.open[name] = model
	}
	return user.WithRewardModel(model), nil
}

func (r *rewardModels) load(ctx context.Context, name string) (*trinity.RewardModel, error) {
	path, err := ResolveModel(ctx, name, r.say)
	if err != nil {
		return nil, err
	}
	text, err := OpenText(path, TextOptions{})
	if err != nil {
		return nil, err
	}
	if text.Tokenizer == nil {
		return nil, fmt.Errorf("model %s has no tokenizer (tokenizer.json)", path)
	}
	engine, err := registry.Engines.Build(r.engine)
	if err != nil {
		return nil, err
	}
	opener, ok := engine.(trinity.ScorerOpener)
	if !ok {
		return nil, fmt.Errorf("engine %s opens no reward models", r.engine)
	}
	scorer, err := opener.OpenScorer(ctx, trinity.EngineSpec{ModelPath: path, MicroTokens: r.tokens})
	if err != nil {
		return nil, err
	}
	return &trinity.RewardModel{Scorer: scorer, Renderer: text.Renderer}, nil
}

func (r *rewardModels) close() error {
	var errs []error
	for _, m := range r.open {
		errs = append(errs, m.Scorer.Close())
	}
	r.open = nil
	return errors.Join(errs...)
}
