package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/hub"
	"github.com/trinity-go/trinity/model/renderer"
)

// rewardModels are the reward models of a stage. Each is opened once, for all plug-ins that require it.
type rewardModels struct {
	cfg    *config.Settled
	tokens int // of a sequence batch, for the memory plan
	say    func(string)
	opened map[string]*trinity.RewardModel // by the name that plug-ins give
}

func newRewardModels(cfg *config.Settled, say func(string)) rewardModels {
	return rewardModels{cfg: cfg, tokens: *cfg.Trainer.MaxTokenLenPerGPU, say: say, opened: map[string]*trinity.RewardModel{}}
}

// open opens a reward model unless it is open already.
func (r *rewardModels) open(ctx context.Context, spec trinity.RewardModelSpec) (err error) {
	if r.opened[spec.Path] == nil {
		r.opened[spec.Path], err = r.load(ctx, spec.Path)
	}
	return err
}

// get returns an open reward model.
func (r *rewardModels) get(name string) (*trinity.RewardModel, error) {
	m := r.opened[name]
	if m == nil {
		return nil, fmt.Errorf("reward model %s is not open: the plug-in must list it in its Requirements", name)
	}
	return m, nil
}

func (r *rewardModels) load(ctx context.Context, name string) (*trinity.RewardModel, error) {
	path, err := hub.Resolve(ctx, name, r.say)
	if err != nil {
		return nil, err
	}
	text, err := rewardText(path)
	if err != nil {
		return nil, err
	}
	opener, err := frozenOpener(r.cfg)
	if err != nil {
		return nil, err
	}
	scorer, err := opener.OpenScorer(ctx, r.spec(path))
	if err != nil {
		return nil, err
	}
	return &trinity.RewardModel{Scorer: scorer, Renderer: text}, nil
}

// rewardText opens the tokenizer and chat template of a reward model.
func rewardText(path string) (*renderer.Renderer, error) {
	text, err := renderer.Open(path, renderer.Options{})
	if err == nil && text == nil {
		err = fmt.Errorf("model %s has no tokenizer (tokenizer.json)", path)
	}
	return text, err
}

// checkRewardModel returns an error if a model on this machine cannot be the required reward model. It reads no weights.
func checkRewardModel(cfg *config.Settled, r requiredRewardModel, path string) error {
	m, err := model.Open(path)
	if err != nil {
		return cfg.At(r.key, err.Error(), "")
	}
	_, err = rewardText(path)
	if err = errors.Join(err, m.Close()); err != nil {
		return cfg.At(r.key, err.Error(), "")
	}
	if n := m.Config.NumLabels; m.Config.Head != model.CausalLM && n < r.Labels {
		return cfg.At(r.key, fmt.Sprintf("reward model %s has %d labels, and label %d is asked for", r.Path, n, r.Labels-1),
			fmt.Sprintf("want 0 to %d", n-1))
	}
	return nil
}

// spec returns how the engine opens a reward model.
func (r *rewardModels) spec(path string) trinity.EngineSpec {
	return trinity.EngineSpec{ModelPath: path, Head: trinity.ScoreHead, MicroTokens: r.tokens}
}

// fetchRewardModels brings the reward models that tasksets require onto this machine and checks them.
func fetchRewardModels(ctx context.Context, cfg *config.Settled, say func(string)) error {
	for _, r := range rewardModelsOf(cfg) {
		path, err := hub.Resolve(ctx, r.Path, say)
		if err != nil {
			return cfg.At(r.key, "reward model: "+err.Error(), "")
		}
		if err := checkRewardModel(cfg, r, path); err != nil {
			return err
		}
	}
	return nil
}

// rewardMemory plans the memory of the reward models that tasksets require, as far as they are on this machine.
func rewardMemory(cfg *config.Settled) ([]config.MemoryPlan, error) {
	r := newRewardModels(cfg, nil)
	var plans []config.MemoryPlan
	for _, required := range rewardModelsOf(cfg) {
		name := required.Path
		path, ok := local(name, "", false, &config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}})
		if !ok || slices.ContainsFunc(plans, func(p config.MemoryPlan) bool { return p.Why == name }) {
			continue
		}
		opener, err := frozenOpener(cfg)
		if err != nil {
			return nil, err
		}
		parts, err := opener.PlanMemory(r.spec(path))
		if err != nil {
			return nil, cfg.At(required.key, "reward model: "+err.Error(), "")
		}
		plans = append(plans, config.MemoryPlan{Kind: "reward model", Bytes: planned(parts), Why: name})
	}
	return plans, nil
}

func (r *rewardModels) close() error {
	var errs []error
	for _, m := range r.opened {
		if m != nil {
			errs = append(errs, m.Scorer.Close())
		}
	}
	r.opened = nil
	return errors.Join(errs...)
}
