package workflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

func init() {
	register("math_trainable_ruler_workflow",
		"math_workflow for a policy that also learns to judge. With probability `truth_probability`, which is drawn for each group, replies "+
			"keep the task's reward (default: math_reward), and each rollout judges the whole group, as in ruler_reward. Its judgement is an "+
			"experience of part judge before the reply; its reward is 1 − mean |score − (reward + 0.1)/1.2|, and 0 if it cannot be read. Else "+
			"one judgement of the policy gives the rewards; if it cannot be read, the group has none. Metrics: judge_success, judge_mae, "+
			"gold_reward. Advantage functions and operators compare judgements with judgements and replies with replies; advantage functions that "+
			"know steps refuse this workflow. The task's reward function must score each reply alone.",
		func() trinity.Workflow { return &mathTrainableRuler{TruthProbability: 0.2} })
}

// mathTrainableRuler lets the policy solve a problem, and learn to compare solutions.
//
// Unlike Trinity-RFT: a judgement belongs to a rollout, so that a step has as many rollouts as before, and an unreadable one gives the
// replies no reward, where it is 0 there.
type mathTrainableRuler struct {
	TruthProbability float64 `yaml:"truth_probability" range:"[0,1]" doc:"share of groups with the task's rewards, which teach to judge"`

	ruler, once judgedArgs // several tries to read an answer, and one
}

// Validate builds the comparison.
func (w *mathTrainableRuler) Validate() error {
	args := map[string]any{"rubric": rulerRubric}
	w.ruler.Judge, w.once.Judge = trinity.PolicyAsker, trinity.PolicyAsker
	if err := w.ruler.build("ruler_reward", args); err != nil {
		return err
	}
	return w.once.build("ruler_reward", map[string]any{"rubric": rulerRubric, "tries": 1})
}

// Requires implements [trinity.Requirer].
func (w *mathTrainableRuler) Requires() trinity.Requirements {
	return trinity.Requirements{
		Reward: true, DefaultReward: "math_reward", RewardAtOnce: true, CheckTask: checkPrompt, Parts: true, RunGroup: w.runGroup,
		Askers: trinity.RequirementsOf(w.ruler.by).Askers,
	}
}

// Run implements [trinity.Workflow].
func (w *mathTrainableRuler) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	all, err := w.runGroup(ctx, []*trinity.Rollout{r})
	if len(all) == 0 {
		return nil, err
	}
	return all[0], err
}

// runGroup makes the replies of a group and then judges them.
func (w *mathTrainableRuler) runGroup(ctx context.Context, group []*trinity.Rollout) ([][]*trinity.Experience, error) {
	exps := make([][]*trinity.Experience, len(group))
	failed, err := each(len(group), func(i int) (err error) {
		exps[i], err = ask(ctx, group[i], mathSystem)
		return err
	})
	if err != nil || group[0].Task.Eval {
		return exps, errors.Join(err, failed)
	}
	first := group[0]
	messages, err := first.Task.Messages(mathSystem)
	if err != nil {
		return nil, err
	}
	var replies trinity.Group
	var in []trinity.RewardInput
	var of []int // the rollout of each
	for i, own := range exps {
		if len(own) == 1 && own[0].Truncated != trinity.PromptTruncated {
			replies, in, of = append(replies, own[0]), append(in, inputOf(first, own[0], messages)), append(of, i)
		}
	}
	draw := rand.New(rand.NewPCG(first.Seed, 0)).Float64()
	switch {
	case len(replies) == 0:
	case draw >= w.TruthProbability:
		err = w.ruler.compare(ctx, first, replies, mathSystem)
	default:
		var unjudged error
		unjudged, err = each(len(of), func(k int) error {
			e, err := w.judge(ctx, group[of[k]], in)
			if err != nil {
				exps[of[k]] = nil
				return fmt.Errorf("judging the group: %w", err)
			}
			exps[of[k]] = []*trinity.Experience{e, replies[k]}
			return nil
		})
		failed = errors.Join(failed, unjudged)
	}
	if err != nil {
		return nil, err
	}
	return exps, failed
}

// each calls do for each of n at once. failed are the errors of some; err is one of an engine, which all share.
func each(n int, do func(i int) error) (failed, err error) {
	errs := make([]error, n)
	var eg errgroup.Group
	for i := range n {
		eg.Go(func() error {
			errs[i] = do(i)
			if engine := (*trinity.EngineError)(nil); errors.As(errs[i], &engine) {
				return errs[i]
			}
			return nil
		})
	}
	if err = eg.Wait(); err != nil {
		return nil, err
	}
	return errors.Join(errs...), nil
}

// judge lets the policy of a rollout judge the replies of its group, and returns the judgement with its reward.
func (w *mathTrainableRuler) judge(ctx context.Context, r *trinity.Rollout, in []trinity.RewardInput) (*trinity.Experience, error) {
	own, bench := make([]trinity.RewardInput, len(in)), &judgeOfPolicy{Host: r.Host, model: r.Model}
	for i := range in {
		copied := *in[i].Experience // which the judge's version is written into
		own[i] = in[i]
		own[i].Experience, own[i].Host = &copied, bench
	}
	scores, err := w.once.by.ScoreGroup(ctx, own)
	if bench.err != nil || err != nil {
		return nil, errors.Join(bench.err, err)
	}
	e, off, known := bench.said, 0.0, 0
	e.Part, e.Metrics = "judge", map[string]float64{"judge_success": 0}
	for i, score := range scores {
		gold := in[i].Experience.Reward
		if !score.Valid {
			e.Reward = trinity.NewReward(map[string]float64{"agreement": 0})
			return e, nil
		}
		if gold.Valid {
			off += math.Abs(score.Value - (gold.Value+0.1)/1.2)
			known++
		}
	}
	e.Metrics["judge_success"] = 1
	if known == 0 {
		e.Reward = trinity.InvalidReward("no reply of the group has a valid reward to judge by")
		return e, nil
	}
	mae := off / float64(known)
	e.Metrics["judge_mae"], e.Reward = mae, trinity.NewReward(map[string]float64{"agreement": 1 - mae})
	return e, nil
}

// judgeOfPolicy is a host whose only model is a rollout's own. What that answers is an experience.
type judgeOfPolicy struct {
	trinity.Host
	model *trinity.Model
	said  *trinity.Experience
	err   error
}

// Asker implements [trinity.Host].
func (j *judgeOfPolicy) Asker(string) (trinity.Asker, error) { return j, nil }

// Ask implements [trinity.Asker]. The policy answers as in a rollout, whatever the options.
func (j *judgeOfPolicy) Ask(ctx context.Context, messages []trinity.Message, _ trinity.AskOptions) (a trinity.Answer, err error) {
	if j.said, j.err = j.model.Chat(ctx, messages, nil); j.err == nil && j.said.Truncated == trinity.PromptTruncated {
		j.err = fmt.Errorf("the question has %d tokens, over max_prompt_tokens %d", j.said.PromptLen, j.model.MaxPromptLen)
	}
	if j.err != nil {
		return a, j.err
	}
	j.said.Prompt = messages[len(messages)-1].Content
	a.Message, _, _ = j.model.Renderer.Read(j.said.Tokens[j.said.PromptLen:], nil) // a call of a tool is part of the text
	a.Version = j.said.Versions[1]
	return a, nil
}
