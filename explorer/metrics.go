package explorer

import (
	"slices"

	"github.com/trinity-go/trinity"
)

// runs cuts a group, which is in order of run and turn, into its rollouts: a workflow may make several experiences of one, a step each.
func runs(g trinity.Group) []trinity.Group {
	var out []trinity.Group
	for i, e := range g {
		if i == 0 || e.ID.Run != g[i-1].ID.Run {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], e)
	}
	return out
}

// perRun lists, for each metric, what each run of a group has of it: the mean over those of its steps that have it, so that long runs do not
// weigh more.
func perRun(g trinity.Group) map[string][]float64 {
	out := map[string][]float64{}
	for _, run := range runs(g) {
		steps := map[string][]float64{}
		for _, e := range run {
			for name, v := range experienceMetrics(e) {
				steps[name] = append(steps[name], v)
			}
		}
		for name, v := range steps {
			out[name] = append(out[name], mean(v))
		}
	}
	return out
}

// unscored are the experiences of a group that lack a reward. A step before the last of its run may do without; it lacks one only where a reason
// says that it was to be scored.
func unscored(g trinity.Group) trinity.Group {
	var out trinity.Group
	for _, run := range runs(g) {
		for i, e := range run {
			if !e.Reward.Valid && (i == len(run)-1 || e.Reward.Reason != "") {
				out = append(out, e)
			}
		}
	}
	return out
}

// experienceMetrics are the numbers that one experience contributes: its reward with parts, its own metrics, its lengths.
func experienceMetrics(e *trinity.Experience) map[string]float64 {
	m := map[string]float64{"response_length": float64(len(e.Tokens) - e.PromptLen), "prompt_length": float64(e.PromptLen)}
	for k, v := range e.Metrics {
		m[k] = v
	}
	if e.Reward.Valid {
		m["reward"] = e.Reward.Value
		for k, v := range e.Reward.Parts {
			m[k] = v
		}
	}
	return m
}

// rolloutMetrics aggregates step of a run → run → task by the mean, task → step by mean, max and min.
func rolloutMetrics(outcomes []*outcome) trinity.Metrics {
	perTask := map[string][]float64{}
	failed, retries, invalid, truncated, finished := 0, 0, 0, 0, 0
	for _, o := range outcomes {
		failed += len(o.failed)
		retries += o.retries
		if len(o.group) > 0 {
			finished++
		}
		invalid += len(unscored(o.group))
		for _, e := range o.group {
			if e.Truncated != trinity.NotTruncated {
				truncated++
			}
		}
		values := perRun(o.group)
		for _, d := range o.elapsed {
			values["time/run_execution"] = append(values["time/run_execution"], d.Seconds())
		}
		for name, v := range values {
			perTask[name] = append(perTask[name], mean(v))
		}
	}
	m := trinity.Metrics{
		"finished_task_count": float64(finished), "failed_run_count": float64(failed), "retry_count": float64(retries),
		"invalid_reward_count": float64(invalid), "truncated_count": float64(truncated),
	}
	for _, name := range sortedNames(perTask) {
		v := perTask[name]
		m[name+"/mean"], m[name+"/max"], m[name+"/min"] = mean(v), slices.Max(v), slices.Min(v)
	}
	return m
}

// feedback is the mean reward of each task's row, for curricula: the mean over its runs of the mean over their valid rewards.
func feedback(outcomes []*outcome) map[int]float64 {
	rewards := map[int]float64{}
	for _, o := range outcomes {
		var of []float64 // each run
		for _, run := range runs(o.group) {
			var valid []float64
			for _, e := range run {
				if e.Reward.Valid {
					valid = append(valid, e.Reward.Value)
				}
			}
			if len(valid) > 0 {
				of = append(of, mean(valid))
			}
		}
		if len(of) > 0 {
			rewards[o.task.Index] = mean(of)
		}
	}
	return rewards
}
