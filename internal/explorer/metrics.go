package explorer

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// reusedMetric is the share of the prompts of a rollout's later calls that the sampler had computed
// before, in tokens.
const reusedMetric = "prefill_reused_ratio"

// runs splits a group, which is ordered by run and turn, into rollouts. A rollout of several steps
// has an experience for each.
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

// perRun returns the values of each metric, one for each run of a group: the mean over the run's
// steps that have the metric, so that long runs do not weigh more.
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

// unscored returns the experiences of a group that lack a valid reward. Only the last step of a run
// needs one; an earlier step counts only if its reward has a reason, because then something tried
// to score it.
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

// ownMetrics are the metrics of an experience that no part of a reward replaces.
var ownMetrics = []string{"reward", "response_length", "prompt_length", "environment_length"}

// experienceMetrics returns the metrics of one experience: its reward, the parts of its reward by
// name, its own metrics and its lengths in tokens.
func experienceMetrics(e *trinity.Experience) map[string]float64 {
	m := map[string]float64{}
	for k, v := range e.Metrics {
		m[k] = v
	}
	if e.Reward.Valid {
		for k, v := range e.Reward.Parts {
			m[k] = v
		}
		m["reward"] = e.Reward.Value
	}
	m["response_length"], m["prompt_length"] = float64(e.ResponseLen()), float64(e.PromptLen)
	if e.EnvironmentLen > 0 {
		m["environment_length"] = float64(e.EnvironmentLen)
	}
	if e.Part == "" {
		return m
	}
	named := map[string]float64{} // of another part, by names of its own
	for k, v := range m {
		named[experience.MetricOf(e.Part, k)] = v
	}
	return named
}

// samples returns an answer with the lowest reward and one with the highest, in this order. If all
// rewards are equal, it returns the first two answers.
func samples(outcomes []*outcome) []trinity.Sample {
	var scored []*trinity.Experience
	for _, o := range outcomes {
		for _, x := range o.group {
			if x.Reward.Valid && x.Part == "" {
				scored = append(scored, x)
			}
		}
	}
	if len(scored) > 2 {
		byReward := func(a, b *trinity.Experience) int { return cmp.Compare(a.Reward.Value, b.Reward.Value) }
		if lowest, highest := slices.MinFunc(scored, byReward), slices.MaxFunc(scored, byReward); lowest != highest {
			scored = []*trinity.Experience{lowest, highest}
		}
		scored = scored[:2]
	}
	var out []trinity.Sample
	for _, x := range scored {
		out = append(out, trinity.Sample{Prompt: excerpt(x.Prompt), Response: excerpt(x.Response), Reward: x.Reward.Value})
	}
	return out
}

// excerpt returns the text, or the beginning and the end of a long one.
func excerpt(text string) string {
	const most = 4000 // characters
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	r := []rune(text)
	return string(r[:most/2]) + " … " + string(r[len(r)-most/2:])
}

// Metrics returns the metrics of groups that nobody rolled out for a task, such as real traffic.
func Metrics(groups []trinity.Group) trinity.Metrics {
	var outcomes []*outcome
	for _, g := range groups {
		outcomes = append(outcomes, &outcome{group: g})
	}
	return rolloutMetrics(outcomes)
}

// mostParts bounds the names of reward parts and of experiences' metrics that a step logs. Programs give
// the names, perhaps by what the policy says.
const mostParts = 256

// excessParts returns these names beyond the first mostParts, in the order of the alphabet.
func excessParts(outcomes []*outcome) []string {
	parts := map[string]bool{}
	for _, o := range outcomes {
		for _, e := range o.group {
			for name := range e.Metrics {
				parts[name] = true
			}
			for name := range e.Reward.Parts {
				if !slices.Contains(ownMetrics, name) {
					parts[name] = true
				}
			}
		}
	}
	names := sortedNames(parts)
	return names[min(mostParts, len(names)):]
}

// rolloutMetrics returns the metrics of outcomes. It takes means over the steps of a run and the
// runs of a task, then mean, max and min over tasks. equal_reward_share is the share of the groups
// with several rewards in which all are equal.
func rolloutMetrics(outcomes []*outcome) trinity.Metrics {
	perTask, kinds, lost := map[string][]float64{}, trinity.Metrics{}, lostTokens{}
	failed, retries, invalid, truncated, finished, groups, equal, ended := 0, 0, 0, 0, 0, 0, 0, 0
	for _, o := range outcomes {
		failed += len(o.failed)
		ended += o.ended
		lost.add(o.lost)
		for _, err := range o.failed {
			kinds["failed_"+string(kindOf(err))+"_count"]++
		}
		retries += o.retries
		if len(o.group) > 0 {
			finished++
		}
		invalid += len(unscored(o.group))
		for _, kind := range failedRewards(o.group) {
			kinds["failed_"+string(kind)+"_count"]++
		}
		for _, e := range o.group {
			if e.Truncated != trinity.NotTruncated {
				truncated++
			}
		}
		values := perRun(o.group)
		if rewards := values["reward"]; len(rewards) > 1 {
			groups++
			if isEqual(rewards) {
				equal++
			}
		}
		for _, d := range o.elapsed {
			values["time/run_execution"] = append(values["time/run_execution"], d.Seconds())
		}
		if len(o.reused) > 0 {
			values[reusedMetric] = o.reused
		}
		for name, v := range values {
			perTask[name] = append(perTask[name], mean(v))
		}
	}
	m := trinity.Metrics{
		"finished_task_count": float64(finished), "failed_run_count": float64(failed), "retry_count": float64(retries),
		"invalid_reward_count": float64(invalid), "truncated_count": float64(truncated),
	}
	m.Merge("", kinds)
	m.Merge("", lost.metrics())
	if ended > 0 {
		m["failed_"+string(trinity.FailedCancelled)+"_count"] = float64(ended)
	}
	if groups > 0 {
		m["equal_reward_share"] = float64(equal) / float64(groups)
	}
	for _, name := range excessParts(outcomes) {
		delete(perTask, name)
		m["unlogged_part_count"]++
	}
	for _, name := range sortedNames(perTask) {
		v := perTask[name]
		m[name+"/mean"], m[name+"/max"], m[name+"/min"] = mean(v), slices.Max(v), slices.Min(v)
	}
	return m
}

// kindOf returns what a rollout failed by.
func kindOf(err error) trinity.FailureKind { return trinity.KindOf(err, trinity.FailedWorkflow) }

// feedback returns the mean reward of each task, by row, for curricula: the mean over runs of the
// mean of a run's valid rewards. Rows of one pack have the same.
func feedback(outcomes []*outcome) map[int]float64 {
	rewards := map[int]float64{}
	for _, o := range outcomes {
		of := runRewards(o.group)
		if len(of) == 0 {
			continue
		}
		rewards[o.task.Index] = mean(of)
		for _, t := range o.task.Pack {
			rewards[t.Index] = mean(of)
		}
	}
	return rewards
}

// runRewards returns the mean of the valid rewards of each run of a group that has some.
func runRewards(g trinity.Group) (means []float64) {
	for _, run := range runs(g) {
		var valid []float64
		for _, e := range run {
			if e.Reward.Valid && e.Part == "" {
				valid = append(valid, e.Reward.Value)
			}
		}
		if len(valid) > 0 {
			means = append(means, mean(valid))
		}
	}
	return means
}
