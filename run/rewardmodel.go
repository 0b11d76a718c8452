package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/modelfile"
	"github.com/trinity-go/trinity/registry"
)

// rewardModels are the reward models of a stage, each opened once.
type rewardModels struct {
	engine string // that opens them
	tokens int    // planned for at once
	say    func(string)
	open   map[string]*trinity.RewardModel
}

func newRewardModels(cfg *config.Config, say func(string)) rewardModels {
	return rewardModels{engine: cfg.TrainEngine(), tokens: *cfg.Trainer.MaxTokenLenPerGPU, say: say}
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
	return user.WithRewardModel(model)
}

func (r *rewardModels) load(ctx context.Context, name string) (*trinity.RewardModel, error) {
	path, err := ResolveModel(ctx, name, r.say)
	if err != nil {
		return nil, err
	}
	text, err := rewardText(path)
	if err != nil {
		return nil, err
	}
	engine, err := registry.Engines.Build(r.engine)
	if err != nil {
		return nil, err
	}
	opener, ok := engine.(trinity.ScorerOpener)
	if !ok {
		return nil, fmt.Errorf("engine %s opens no reward models", r.engine)
	}
	scorer, err := opener.OpenScorer(ctx, r.spec(path))
	if err != nil {
		return nil, err
	}
	return &trinity.RewardModel{Scorer: scorer, Renderer: text.Renderer}, nil
}

// rewardText opens the tokenizer and chat template of a reward model.
func rewardText(path string) (*Text, error) {
	text, err := OpenText(path, TextOptions{})
	if err == nil && text.Tokenizer == nil {
		err = fmt.Errorf("model %s has no tokenizer (tokenizer.json)", path)
	}
	return text, err
}

// checkRewardModel tells what a reward model on this machine lacks; its weights stay on disk.
func checkRewardModel(path string) error {
	m, err := modelfile.Open(path)
	if err != nil {
		return err
	}
	_, err = rewardText(path)
	return errors.Join(err, m.Close())
}

// spec is what is asked of the engine of a reward model.
func (r *rewardModels) spec(path string) trinity.EngineSpec {
	return trinity.EngineSpec{ModelPath: path, Head: trinity.ScoreHead, Forward: true, MicroTokens: r.tokens}
}

// fetchRewardModels brings the reward models that tasksets name onto this machine.
func fetchRewardModels(ctx context.Context, cfg *config.Config, say func(string)) error {
	for _, t := range cfg.Tasksets() {
		if name := rewardModelPath(t); name != "" {
			if _, err := ResolveModel(ctx, name, say); err != nil {
				return fmt.Errorf("%s.reward_fn_args: reward model: %w", t.Key, err)
			}
		}
	}
	return nil
}

// rewardMemory is the memory of the reward models that tasksets name, as far as they are on this machine.
func rewardMemory(cfg *config.Config) ([]config.MemoryPlan, error) {
	r := newRewardModels(cfg, nil)
	engine, err := registry.Engines.Build(r.engine)
	if err != nil {
		return nil, err
	}
	planner, ok := engine.(trinity.MemoryPlanner)
	if !ok {
		return nil, nil
	}
	var plans []config.MemoryPlan
	for _, t := range cfg.Tasksets() {
		name := rewardModelPath(t)
		path, ok := local(name, "", false, &config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}})
		if name == "" || !ok || slices.ContainsFunc(plans, func(p config.MemoryPlan) bool { return p.Why == name }) {
			continue
		}
		parts, err := planner.PlanMemory(r.spec(path))
		if err != nil {
			return nil, fmt.Errorf("%s.reward_fn_args: reward model: %w", t.Key, err)
		}
		plan := config.MemoryPlan{Kind: "reward model", Why: name}
		for _, p := range parts {
			plan.Bytes += p.Bytes
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// rewardModelPath is the reward model that a taskset names; "" if there is none.
func rewardModelPath(t config.TasksetEntry) string {
	fn, err := registry.Rewards.Build(t.DefaultRewardFnType, t.RewardFnArgs)
	if err != nil {
		return "" // which config reports
	}
	if user, ok := fn.(trinity.RewardModelUser); ok {
		return user.RewardModelPath()
	}
	return ""
}

func (r *rewardModels) close() error {
	var errs []error
	for _, m := range r.open {
		errs = append(errs, m.Scorer.Close())
	}
	r.open = nil
	return errors.Join(errs...)
}
