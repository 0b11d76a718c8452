package examples

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	for name, w := range map[string]struct {
		doc string
		run environment
	}{
		"test_ladder": {"Three questions; a wrong answer leads back to the same one. The last step is rewarded with the share that was answered.", ladder},
		"test_toll":   {"Three questions. Right answers are paid for, and the last step takes all of it back; the run is rewarded with the toss of a coin.", toll},
		"test_pack":   {"Three tasks, of which the second and third are solved by the right answer to a question before them, an unpaid hint.", pack},
	} {
		registry.Workflows.Register(name, w.doc, func() trinity.Workflow { return w.run })
	}
}

// digits are those of the question which of two is the larger one.
type digits [2]int

// next is the run's question k, of which the first is its task's.
func (d digits) next(k int) digits { return digits{(d[0] + 3*k) % 10, (d[1] + 7*k) % 10} }

// questions is how many a run answers.
const questions = 3

// environment is a workflow of several steps, each a chat of its own.
type environment func(ctx context.Context, first digits, r *trinity.Rollout) ([]*trinity.Experience, error)

// Run implements [trinity.Workflow].
func (w environment) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	question, err := r.Task.Prompt()
	if err != nil {
		return nil, err
	}
	var d digits
	if _, err := fmt.Sscanf(question, "max %d %d", &d[0], &d[1]); err != nil {
		return nil, err
	}
	return w(ctx, d, r)
}

// ask asks which is the larger one. right is 1 or 0.
func ask(ctx context.Context, m *trinity.Model, d digits) (e *trinity.Experience, right float64, err error) {
	if e, err = m.Chat(ctx, []trinity.Message{{Role: "user", Content: fmt.Sprintf("max %d %d", d[0], d[1])}}, nil); err != nil {
		return nil, 0, err
	}
	if e.Response == fmt.Sprintf("<answer>%d</answer>", max(d[0], d[1])) && e.Truncated == trinity.NotTruncated {
		right = 1
	}
	e.Metrics = map[string]float64{"right": right}
	return e, right, nil
}

// ladder has runs of three to five steps, of which the last alone has a reward. Some runs fail, some cannot be scored.
func ladder(ctx context.Context, first digits, r *trinity.Rollout) (run []*trinity.Experience, err error) {
	if r.Task.Index%10 == 3 && r.Model.ID.Run == 7 {
		return nil, errors.New("the ladder is broken")
	}
	rung := 0
	for rung < questions && len(run) < questions+2 {
		e, right, err := ask(ctx, r.Model, first.next(rung))
		if err != nil {
			return nil, err
		}
		e.Info = map[string]any{"env_state_hash": rung, "step_reward": right}
		rung += int(right)
		run = append(run, e)
	}
	last := run[len(run)-1]
	last.Reward = trinity.NewReward(map[string]float64{"climbed": float64(rung) / questions})
	if r.Task.Index%10 == 4 && r.Model.ID.Run == 6 {
		last.Reward = trinity.InvalidReward("nobody has looked")
	}
	return run, nil
}

// toll has step rewards that add up to 0 in every run. Only from a step on, and discounted, do they say something.
func toll(ctx context.Context, first digits, r *trinity.Rollout) (run []*trinity.Experience, err error) {
	paid := 0.0
	for k := range questions {
		e, right, err := ask(ctx, r.Model, first.next(k))
		if err != nil {
			return nil, err
		}
		e.Info = map[string]any{"env_state_hash": k, "step_reward": right}
		if k == questions-1 {
			e.Info = map[string]any{"step_reward": -paid}
			e.Reward = trinity.NewReward(map[string]float64{"coin": float64(r.Model.Params.Seed >> 63)})
		}
		paid += right
		run = append(run, e)
	}
	return run, nil
}

// pack has the kinds of episodes that the advantage cod knows. What is answered to its tasks does not matter: a task is solved by a right hint, so
// that there is nothing to learn but hints, and nothing but the reward of later tasks tells whether one was right.
func pack(ctx context.Context, first digits, r *trinity.Rollout) (run []*trinity.Experience, err error) {
	solved, sum, hint := make([]float64, questions), 0.0, 1.0
	for k := range questions {
		if k > 0 {
			e, right, err := ask(ctx, r.Model, first.next(k-1))
			if err != nil {
				return nil, err
			}
			e.Info = map[string]any{"exp_type": "gen_hint", "hint_idx": k - 1, "task_rewards": solved}
			e.Reward = trinity.NewReward(map[string]float64{"hint": 0})
			run, hint = append(run, e), right
		}
		e, _, err := ask(ctx, r.Model, digits{first[0], first[0]})
		if err != nil {
			return nil, err
		}
		solved[k] = hint
		sum += hint
		e.Info = map[string]any{"exp_type": "solve_task", "task_idx": k, "task_rewards": solved}
		e.Reward = trinity.NewReward(map[string]float64{"solved": solved[k]})
		run = append(run, e)
	}
	run[len(run)-1].Reward = trinity.NewReward(map[string]float64{"solved": sum / questions})
	return run, nil
}
