package explorer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
)

// ran is what one attempt at a rollout gave.
type ran struct {
	exps   []*trinity.Experience
	wanted []trinity.RewardInput // what a GroupReward is to score
	model  *trinity.Model        // with its count of calls
	trace  *traced
}

// deferred stands for a [trinity.GroupReward] in a rollout. It notes what the rollout wants scored,
// until its group has ended.
type deferred struct {
	mu     sync.Mutex
	wanted []trinity.RewardInput
}

// notScored is the reason of a reward that waits for its group.
const notScored = "its group was not scored"

// Score implements [trinity.RewardFunc].
func (d *deferred) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if in.Experience == nil {
		return trinity.Reward{}, errors.New("it compares the replies of a group once all its rollouts have ended, so nobody can ask it " +
			"about one reply: leave the reward to it, or name another function")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = append(d.wanted, in)
	return trinity.InvalidReward(notScored), nil
}

// wantedOf returns what a rollout wants scored with its group.
func wantedOf(r *trinity.Rollout) []trinity.RewardInput {
	d, ok := r.Reward.(*deferred)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.wanted)
}

// grade calls a reward function under its deadline.
func (r *Runner) grade(ctx context.Context, score func(context.Context) (trinity.Reward, error)) (trinity.Reward, error) {
	if r.Reward == 0 {
		return score(ctx)
	}
	return bounded(ctx, r.Reward, r.nameOfReward, score)
}

func (r *Runner) nameOfReward() string { return fmt.Sprintf("explorer.reward_timeout of %v", r.Reward) }

// score lets a GroupReward score the rollouts of a group once all have ended. A rollout's last scored
// reply gives its reward to all experiences of the rollout that have none yet. If the group cannot be
// scored, none of its rewards is valid. The error is a failed engine or the end of the run.
func (r *Runner) score(ctx context.Context, task job, group trinity.Group, wanted []trinity.RewardInput) error {
	of, ok := task.reward.(trinity.GroupReward)
	if !ok || len(wanted) == 0 {
		return nil
	}
	after, name := r.deadline(task)
	if r.Reward > 0 {
		after, name = r.Reward, r.nameOfReward
	}
	rewards, err := bounded(ctx, after, name, func(ctx context.Context) ([]trinity.Reward, error) { return of.ScoreGroup(ctx, wanted) })
	var engine *trinity.EngineError
	switch {
	case errors.As(err, &engine):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && len(rewards) != len(wanted):
		err = fmt.Errorf("the reward function returned %d rewards for %d replies", len(rewards), len(wanted))
	}
	last := map[int]trinity.Reward{}
	for i, in := range wanted {
		var reward trinity.Reward
		if err == nil {
			reward = rewards[i]
		} else {
			reward = trinity.Reward{Reason: "scoring the group: " + err.Error(), Kind: trinity.KindOf(err, trinity.FailedReward)}
		}
		in.Experience.Reward, last[in.Experience.ID.Run] = reward, reward
	}
	for _, e := range group {
		if reward, ok := last[e.ID.Run]; ok && !e.Reward.Valid && e.Reward.Reason == notScored {
			e.Reward = reward
		}
	}
	return nil
}
