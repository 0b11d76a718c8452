package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
)

// rewardModel is a reward model that the plug-ins of a taskset require.
type rewardModel struct {
	trinity.RewardModelSpec
	key  string // of the argument that names it
	path string // local; "" if it is not on this machine
}

// rewardModels are the reward models that are open, by the name that plug-ins give. Each is opened
// once, for all plug-ins that require it.
type rewardModels map[string]*trinity.RewardModel

// openRewardModels opens the reward models that the tasks require.
func (s *stage) openRewardModels(ctx context.Context) error {
	for _, r := range s.rewards {
		if s.rewardModels[r.Path] != nil {
			continue
		}
		opened, err := s.openRewardModel(ctx, r.path)
		if err != nil {
			return s.At(r.key, "reward model: "+err.Error(), "")
		}
		s.rewardModels[r.Path] = opened
	}
	return nil
}

// openRewardModel opens the model at a path.
func (s *stage) openRewardModel(ctx context.Context, path string) (*trinity.RewardModel, error) {
	text, err := rewardText(path)
	if err != nil {
		return nil, err
	}
	opener, err := s.engines.Frozen(s.Settled.Settled)
	if err != nil {
		return nil, err
	}
	scorer, err := opener.OpenScorer(ctx, s.scorerSpec(path))
	if err != nil {
		return nil, err
	}
	return &trinity.RewardModel{Scorer: scorer, Renderer: text}, nil
}

// get returns an open reward model.
func (r rewardModels) get(name string) (*trinity.RewardModel, error) {
	m := r[name]
	if m == nil {
		return nil, fmt.Errorf("reward model %s is not open: the plug-in must list it in its Requirements", name)
	}
	return m, nil
}

func (r rewardModels) close() error {
	var errs []error
	for _, m := range r {
		errs = append(errs, m.Scorer.Close())
	}
	clear(r)
	return errors.Join(errs...)
}

// rewardText opens the tokenizer and chat template of a reward model.
func rewardText(path string) (*renderer.Renderer, error) {
	text, err := renderer.Open(path, renderer.Options{})
	if err == nil && text == nil {
		err = fmt.Errorf("model %s has no tokenizer (tokenizer.json)", path)
	}
	return text, err
}

// checkRewardModel returns an error if a model on this machine cannot be the required reward model.
// It reads no weights.
func (s *Settled) checkRewardModel(r *rewardModel) error {
	if s.engines.TakeTurns() {
		return s.At(r.key, "a reward model computes on the trainer's GPUs, which the servers have while rollouts are scored (mode colocate)",
			"use mode both")
	}
	m, err := model.Open(r.path)
	if err != nil {
		return s.At(r.key, "reward model: "+err.Error(), "")
	}
	_, err = rewardText(r.path)
	if err = errors.Join(err, m.Close()); err != nil {
		return s.At(r.key, "reward model: "+err.Error(), "")
	}
	if n := m.Config.NumLabels; m.Config.Head != model.CausalLM && n < r.Labels {
		return s.At(r.key, fmt.Sprintf("reward model %s has %d labels, and label %d is asked for", r.Path, n, r.Labels-1),
			fmt.Sprintf("want 0 to %d", n-1))
	}
	return nil
}

// scorerSpec returns how the engine opens a reward model.
func (s *Settled) scorerSpec(path string) engine.TrainerSpec {
	return engine.TrainerSpec{
		ModelPath: path, Head: engine.ScoreHead, MicroTokens: *s.Trainer.MaxTokenLenPerGPU, Place: s.engines.Programs.Train,
	}
}

// rewardMemory plans the memory of the reward models that are on this machine.
func (s *Settled) rewardMemory() (plans []config.MemoryPlan, err error) {
	counted := map[string]bool{}
	for _, r := range s.rewards {
		if r.path == "" || counted[r.Path] {
			continue
		}
		counted[r.Path] = true
		opener, err := s.engines.Frozen(s.Settled)
		if err != nil {
			return nil, err
		}
		parts, err := opener.PlanMemory(s.scorerSpec(r.path))
		if err != nil {
			return nil, s.At(r.key, "reward model: "+err.Error(), "")
		}
		plans = append(plans, place.Planned(parts, "reward model", r.Path)...)
	}
	return plans, nil
}
