package settle

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
	Key   string // of the argument that names it
	Local string // local; "" if it is not on this machine
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
func (s *Stage) checkRewardModel(r *rewardModel) error {
	if s.Openers.TakeTurns() {
		return s.At(r.Key, "a reward model computes on the trainer's GPUs, which the servers have while rollouts are scored (mode colocate)",
			"use mode both")
	}
	m, err := model.Open(r.Local)
	if err != nil {
		return s.At(r.Key, "reward model: "+err.Error(), "")
	}
	_, err = rewardText(r.Local)
	if err = errors.Join(err, m.Close()); err != nil {
		return s.At(r.Key, "reward model: "+err.Error(), "")
	}
	if n := m.Config.NumLabels; m.Config.Head != model.CausalLM && n < r.Labels {
		return s.At(r.Key, fmt.Sprintf("reward model %s has %d labels, and label %d is asked for", r.Path, n, r.Labels-1),
			fmt.Sprintf("want 0 to %d", n-1))
	}
	return nil
}

// scorerSpec returns how the engine opens a reward model.
func (s *Stage) scorerSpec(path string) engine.TrainerSpec {
	return engine.TrainerSpec{
		ModelPath: path, Head: engine.ScoreHead, MicroTokens: *s.Trainer.MaxTokenLenPerGPU, Place: s.Openers.Programs.Train,
	}
}

// rewardMemory plans the memory of the reward models that are on this machine.
func (s *Stage) rewardMemory() (plans []config.MemoryPlan, err error) {
	counted := map[string]bool{}
	for _, r := range s.Rewards {
		if r.Local == "" || counted[r.Path] {
			continue
		}
		counted[r.Path] = true
		opener, err := s.Openers.Frozen(s.Settled)
		if err != nil {
			return nil, err
		}
		parts, err := opener.PlanMemory(s.scorerSpec(r.Local))
		if err != nil {
			return nil, s.At(r.Key, "reward model: "+err.Error(), "")
		}
		plans = append(plans, place.Planned(parts, "reward model", r.Path)...)
	}
	return plans, nil
}

// OpenScorer opens the reward model at a path.
func (s *Stage) OpenScorer(ctx context.Context, path string) (*trinity.RewardModel, error) {
	text, err := rewardText(path)
	if err != nil {
		return nil, err
	}
	opener, err := s.Openers.Frozen(s.Settled)
	if err != nil {
		return nil, err
	}
	scorer, err := opener.OpenScorer(ctx, s.scorerSpec(path))
	if err != nil {
		return nil, err
	}
	return &trinity.RewardModel{Scorer: scorer, Renderer: text}, nil
}
