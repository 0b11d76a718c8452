package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

// rewardModels are the reward models that are open, by the name that plug-ins give. Each is opened
// once, for all plug-ins that require it.
type rewardModels map[string]*trinity.RewardModel

// openRewardModels opens the reward models that the tasks require.
func (h *Host) openRewardModels(ctx context.Context) error {
	for _, r := range h.stage.Rewards {
		if h.rewardModels[r.Path] != nil {
			continue
		}
		opened, err := h.stage.OpenScorer(ctx, r.Local)
		if err != nil {
			return h.stage.At(r.Key, "reward model: "+err.Error(), "")
		}
		h.rewardModels[r.Path] = opened
	}
	return nil
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
