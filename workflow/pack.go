package workflow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// packArgs are what the workflows of Connect-the-Dots have in common. A rollout solves the tasks of a pack
// one after the other. After each but the last the policy rewrites its hints, which it reads in the
// next task. What is unknown of the environment is the same in all tasks of a pack.
//
// Each reply is an experience. Info has exp_type (solve_task or gen_hint), task_idx or hint_idx,
// taskset_id and task_rewards, for the advantage of the same name.
//
// Unlike Trinity-RFT: what is unknown follows from the run's seed, the step and the pack, or with
// stable_pack_seed from the rows of the pack; a task that cannot be scored ends its rollout, of which
// then nothing is learnt; and hints stay as they are if what happened in a task is too long to be
// read.
type packArgs struct {
	Cod               codArgs `yaml:"cod" doc:"cod_workflow_args of section cod"`
	packContext       `yaml:",inline"`
	LengthPenaltyCoef float64 `yaml:"length_penalty_coef" range:"[0,inf]" doc:"at most so much less reward, for long replies and for many"`
	LenZeroPenalty    int     `yaml:"len_zero_penalty" doc:"tokens of a reply up to which it is not too long"`
	LenFullPenalty    int     `yaml:"len_full_penalty" doc:"tokens of a reply from which it has the whole penalty"`
}

// packContext says what the policy reads of the past.
type packContext struct {
	ContextCompressionMode string `yaml:"context_compression_mode" doc:"keep_all: the policy reads its earlier replies as it wrote them"`
	UpdateContextImpl      string `yaml:"update_context_impl" enum:"update_context|update_context_agent" doc:"the policy rewrites its hints"`
}

// codArgs are the arguments that all workflows of packs share.
type codArgs struct {
	packContext  `yaml:",inline"`
	Methods      []string `yaml:"activated_cod_methods" doc:"iterative_hint_e2e alone"`
	HintPrompt   string   `yaml:"hint_prompt" doc:"system prompt under which the policy rewrites its hints, in place of this program's"`
	HintExample  bool     `yaml:"hint_example" doc:"show the policy an example of hints"`
	HintPenalty  float64  `yaml:"hint_penalty_coef" range:"[0,inf]" doc:"negative reward of hints that cannot be read, or are too long"`
	HintLenZero  int      `yaml:"len_zero_penalty" doc:"tokens up to which hints are not too long"`
	HintLenMax   int      `yaml:"len_max_penalty" doc:"tokens from which hints have the whole penalty; 0 is no limit"`
	HintLenMin   int      `yaml:"len_min_penalty" range:"[0,)" doc:"tokens below which hints have the whole penalty"`
	Limit        int      `yaml:"max_response_tokens_restraint" range:"[0,)" doc:"tokens that the policy is asked to stay below; 0: none"`
	PackSeed     bool     `yaml:"inject_pack_seed" doc:"the tasks of a pack have the same unknowns; else they follow from each row's seed"`
	StableSeed   bool     `yaml:"stable_pack_seed" doc:"the same rows always have the same unknowns"`
	FillPacks    bool     `yaml:"pad_tasks_to_full_pack" doc:"rows from the beginning fill the last pack of an evaluation"`
	ReuseFlow    bool     `yaml:"reuse_workflow_instance" doc:"no effect: a workflow keeps no state"`
	LogInterval  int      `yaml:"cod_log_interval" doc:"no effect: the run keeps its rollouts"`
	LogDir       string   `yaml:"log_dir" doc:"no effect: the run keeps its rollouts"`
	ExpName      string   `yaml:"exp_name" doc:"no effect: the run keeps its rollouts"`
	TeacherScore bool     `yaml:"enable_teacher_logprobs" doc:"false: the taskset's key teacher names a teacher"`
}

const packMethod = "iterative_hint_e2e"

func defaultPack() packArgs {
	c := packContext{ContextCompressionMode: "keep_all", UpdateContextImpl: "update_context"}
	return packArgs{packContext: c, Cod: codArgs{packContext: c, Methods: []string{packMethod}, PackSeed: true}}
}

func (c *packContext) validate() error {
	if c.ContextCompressionMode != "keep_all" {
		return fmt.Errorf("context_compression_mode: want keep_all, got %q; explorer.rollout_model.keep_thinking: false drops thoughts from "+
			"what is read", c.ContextCompressionMode)
	}
	return nil
}

// validate checks the arguments.
func (p *packArgs) validate() error {
	if err := p.packContext.validate(); err != nil {
		return err
	}
	if err := p.Cod.validate(); err != nil {
		return fmt.Errorf("cod.%w", err)
	}
	switch {
	case p.LengthPenaltyCoef > 0 && (p.LenZeroPenalty < 1 || p.LenZeroPenalty >= p.LenFullPenalty):
		return fmt.Errorf("len_zero_penalty and len_full_penalty: want 0 < zero < full with length_penalty_coef, got %d and %d",
			p.LenZeroPenalty, p.LenFullPenalty)
	}
	return nil
}

func (a *codArgs) validate() error {
	if err := a.packContext.validate(); err != nil {
		return err
	}
	switch {
	case !slices.Equal(a.Methods, []string{packMethod}):
		return fmt.Errorf("activated_cod_methods: want [%s], got %q", packMethod, a.Methods)
	case a.HintLenMax != 0 && (a.HintLenZero < 0 || a.HintLenZero >= a.HintLenMax):
		return fmt.Errorf("len_zero_penalty and len_max_penalty: want 0 ≤ zero < max, got %d and %d", a.HintLenZero, a.HintLenMax)
	}
	return nil
}

// attempt is what came of a task.
type attempt struct {
	steps  []*trinity.Experience
	reward trinity.Reward // of all steps
	chat   []trinity.Message
	after  string // what the environment said in the end
}

// solver solves a task. Its policy reads notes under its system prompt.
type solver func(ctx context.Context, r *trinity.Rollout, notes string) (*attempt, error)

// run solves a pack. A task that is in no pack is a pack of its own.
func (p *packArgs) run(ctx context.Context, r *trinity.Rollout, solve solver) (all []*trinity.Experience, err error) {
	tasks := r.Task.Pack
	if len(tasks) == 0 {
		tasks = []*trinity.Task{r.Task}
	}
	var rewards []float64
	hints := ""
	for k := range tasks {
		own := p.rolloutOf(r, tasks, k)
		a, err := solve(ctx, own, p.notes(hints))
		if err != nil {
			return nil, fmt.Errorf("task %d of the pack, %s: %w", k+1, own.Task.ID, err)
		}
		for _, e := range a.steps {
			e.Reward, e.Truth = a.reward, own.Task.Truth()
			e.Info = map[string]any{"exp_type": "solve_task", "task_idx": k, "taskset_id": own.Task.Taskset}
		}
		all = append(all, a.steps...)
		if !a.reward.Valid {
			return spoiled(all, fmt.Sprintf("task %d of the pack, %s: %s", k+1, own.Task.ID, a.reward.Reason)), nil
		}
		note(a.steps[len(a.steps)-1], map[string]float64{"task_reward": a.reward.Value, fmt.Sprint("reward_pos_", k): a.reward.Value})
		if rewards = append(rewards, a.reward.Value); k == len(tasks)-1 {
			break
		}
		var written *trinity.Experience
		if written, hints, err = p.rewrite(ctx, r.Model, a, hints); err != nil {
			return nil, err
		}
		if written != nil {
			written.Info = map[string]any{"exp_type": "gen_hint", "hint_idx": k, "taskset_id": own.Task.Taskset}
			all = append(all, written)
		}
	}
	for _, e := range all {
		e.Info["task_rewards"] = rewards
	}
	return all, nil
}

// rolloutOf returns the rollout of one task of a pack. Its row also has the columns pack_seed, from
// which all that is unknown follows, task_idx and pack_size.
func (p *packArgs) rolloutOf(r *trinity.Rollout, tasks []*trinity.Task, k int) *trinity.Rollout {
	own, task := *r, *tasks[k]
	row := map[string]any{}
	maps.Copy(row, task.Row)
	row["task_idx"], row["pack_size"] = k, len(tasks)
	if p.Cod.PackSeed {
		row["pack_seed"] = r.Seed
	}
	if p.Cod.PackSeed && p.Cod.StableSeed {
		var ids strings.Builder
		for _, t := range tasks {
			fmt.Fprintf(&ids, "%s/%d ", t.Taskset, t.Index)
		}
		row["pack_seed"] = trinity.Seed(0, 0, ids.String(), 0)
	}
	task.Row, task.Pack = row, nil
	own.Task, own.Seed = &task, trinity.Seed(r.Seed, int64(k), "", 0)
	return &own
}

// spoiled returns the experiences of a pack that cannot be scored.
func spoiled(all []*trinity.Experience, reason string) []*trinity.Experience {
	for _, e := range all {
		e.Reward = trinity.InvalidReward(reason)
		e.Info["judge_format_error_in_trajectory"] = true
	}
	return all
}

// note adds metrics to an experience.
func note(e *trinity.Experience, metrics map[string]float64) {
	if e.Metrics == nil {
		e.Metrics = map[string]float64{}
	}
	maps.Copy(e.Metrics, metrics)
}

// shortened returns the reward of a solution less the penalty for its length.
func (p *packArgs) shortened(reward trinity.Reward, steps []*trinity.Experience, most int) trinity.Reward {
	if p.LengthPenaltyCoef == 0 || !reward.Valid || reward.Value <= 0 {
		return reward
	}
	long := 0.0
	for _, e := range steps {
		long += ramp(e.ResponseLen(), p.LenZeroPenalty, p.LenFullPenalty)
	}
	long = long/float64(len(steps)) + float64(len(steps))/float64(most)
	reward.Value = max(0, reward.Value-p.LengthPenaltyCoef*long)
	return reward
}

// ramp rises from 0 at one number to 1 at another.
func ramp(n, from, to int) float64 { return min(1, max(0, float64(n-from)/float64(to-from))) }
