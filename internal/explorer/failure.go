package explorer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// failures counts the rollouts that failed or have no valid reward.
type failures struct {
	rollouts, failed, scored int
	first                    string // what is known of the first, in one line; "" if there are none
}

// record passes every rollout that failed or has no valid reward to the recorder, the kind of the
// failure first, and counts them.
func record(recorder Recorder, outcomes []*outcome) (f failures) {
	note := func(kind trinity.FailureKind, err error) {
		line, _, _ := strings.Cut(err.Error(), "\n") // the log of failed rollouts has the stack of a panic
		f.first = cmp.Or(f.first, line)
		f.failed++
		recorder.Warn(fmt.Errorf("%s: %w", kind, err))
	}
	for _, o := range outcomes {
		for _, err := range o.failed {
			note(kindOf(err), err)
		}
		for _, x := range o.group {
			if x.Reward.Valid {
				f.scored++
			}
		}
		for _, x := range unscored(o.group) {
			note(cmp.Or(x.Reward.Kind, trinity.FailedReward),
				fmt.Errorf("task %s, run %d: no valid reward: %s", x.ID.Task, x.ID.Run, cmp.Or(x.Reward.Reason, "the workflow gave none")))
		}
		f.rollouts += len(o.failed) + len(o.elapsed)
	}
	return f
}

func (f *failures) String() string {
	return fmt.Sprintf("%d of %d rollouts failed or have no valid reward; the first: %s; log/failed_rollouts.log has all",
		f.failed, f.rollouts, f.first)
}

// maxFailedSteps is the number of consecutive steps without a valid reward that end the run: the
// workflow or something it depends on is broken, and the policy would learn nothing. A process with
// fewer steps ends after its last one.
const maxFailedSteps = 3

// warn records every rollout that failed or has no valid reward. People read of the first step that
// has such rollouts, and of the first in a row that has no others. The error ends the run, after
// maxFailedSteps.
func (e *Explorer) warn(step int64, outcomes []*outcome) error {
	f := record(e.opts.Recorder, outcomes)
	e.failedSteps++
	if f.first == "" || f.scored > 0 {
		e.failedSteps = 0
	}
	if e.failedSteps >= e.mostFailed {
		before := ""
		switch n := e.failedSteps - 1; {
		case n == 1:
			before = ", as did those of the step before"
		case n > 1:
			before = fmt.Sprintf(", as did those of the %d steps before", n)
		}
		return fmt.Errorf("all %d rollouts of this step failed or have no valid reward%s; the first: %s", f.rollouts, before, f.first)
	}
	if f.first != "" && (!e.toldFailure || e.failedSteps == 1) {
		e.toldFailure = true
		e.opts.Recorder.Say(fmt.Sprintf("explorer step %d: %s", step, &f))
	}
	return e.tooMany(outcomes)
}

// recentRollouts is how many of the newest rollouts of a taskset explorer.max_failed_ratio looks at.
const recentRollouts = 100

// recent keeps what the newest rollouts of a taskset failed by; "" if they succeeded.
type recent []trinity.FailureKind

func (r *recent) add(kind trinity.FailureKind) {
	*r = append(*r, kind)
	*r = (*r)[max(0, len(*r)-recentRollouts):]
}

// failedRewards returns what the reward function failed by, for each rollout of a group that it could
// not score for that.
func failedRewards(g trinity.Group) (kinds []trinity.FailureKind) {
	for _, run := range runs(g) {
		for _, e := range unscored(run) {
			if e.Reward.Kind != "" {
				kinds = append(kinds, e.Reward.Kind)
				break
			}
		}
	}
	return kinds
}

// tooMany returns an error if more than the allowed share of the newest rollouts of a taskset
// failed, once there are enough of them to tell.
func (e *Explorer) tooMany(outcomes []*outcome) error {
	if e.opts.MaxFailedRatio <= 0 {
		return nil
	}
	for _, o := range outcomes {
		of := e.recent[o.task.Taskset]
		for _, err := range o.failed {
			of.add(kindOf(err))
		}
		unjudged := failedRewards(o.group)
		for _, kind := range unjudged {
			of.add(kind)
		}
		for range len(o.elapsed) - len(unjudged) {
			of.add("")
		}
		e.recent[o.task.Taskset] = of
	}
	for _, set := range sortedNames(e.recent) {
		kinds, failed := map[trinity.FailureKind]int{}, 0
		for _, kind := range e.recent[set] {
			if kind != "" {
				kinds[kind]++
				failed++
			}
		}
		n := len(e.recent[set])
		if n < recentRollouts || float64(failed) <= e.opts.MaxFailedRatio*float64(n) {
			continue
		}
		var parts []string
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			parts = append(parts, fmt.Sprintf("%d by %s", kinds[kind], kind))
		}
		return fmt.Errorf("%d of the last %d rollouts of taskset %s failed (%s), more than explorer.max_failed_ratio %g allows; "+
			"log/failed_rollouts.log has all", failed, n, set, strings.Join(parts, ", "), e.opts.MaxFailedRatio)
	}
	return nil
}
