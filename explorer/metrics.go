package explorer

import (
	"slices"

	"github.com/trinity-go/trinity"
)

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

// rolloutMetrics aggregates run → task by the mean, task → step by mean, max and min.
func rolloutMetrics(outcomes []*outcome) trinity.Metrics {
	perTask := map[string][]float64{}
	failed, retries, invalid, truncated, finished := 0, 0, 0, 0, 0
	for _, o := range outcomes {
		failed += len(o.failed)
		retries += o.retries
		if len(o.group) > 0 {
			finished++
		}
		runs := map[string][]float64{}
		for _, e := range o.group {
			if !e.Reward.Valid {
				invalid++
			}
			if e.Truncated != trinity.NotTruncated {
				truncated++
			}
			for name, v := range experienceMetrics(e) {
				runs[name] = append(runs[name], v)
			}
		}
		for _, d := range o.elapsed {
			runs["time/run_execution"] = append(runs["time/run_execution"], d.Seconds())
		}
		for name, v := range runs {
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

// feedback is the mean valid reward of each task's row, for curricula.
func feedback(outcomes []*outcome) map[int]float64 {
	rewards := map[int]float64{}
	for _, o := range outcomes {
		var valid []float64
		for _, e := range o.group {
			if e.Reward.Valid {
				valid = append(valid, e.Reward.Value)
			}
		}
		if len(valid) > 0 {
			rewards[o.task.Index] = mean(valid)
		}
	}
	return rewards
}

// sampledTokens counts what the policy wrote.
func sampledTokens(outcomes []*outcome) int {
	n := 0
	for _, o := range outcomes {
		for _, e := range o.group {
			n += e.TrainedTokens()
		}
	}
	return n
}
