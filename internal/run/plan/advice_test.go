package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The advice names who bounds a step, and the settings of the slower side.
func TestAdvice(t *testing.T) {
	r := newRun(t)
	for _, c := range []struct {
		name         string
		set          []string
		explore      int
		train        int
		bound, then  string
		gains        bool
		key, without string
	}{
		{"on-policy", nil, 6, 5, byTurns, byExplorer, true, "explorer.share", "algorithm.repeat_times"},
		{"explorer", []string{"synchronizer.sync_offset=1"}, 20, 2, byExplorer, byExplorer, false, "explorer.share", "algorithm.repeat_times"},
		{"trainer", []string{"synchronizer.sync_offset=1"}, 2, 20, byTrainer, byTrainer, false, "algorithm.repeat_times", "explorer.share"},
		{"one at a time", []string{"synchronizer.sync_offset=1", "explorer.runner_per_model=1"}, 20, 2, byExplorer, byExplorer, false,
			"explorer.runner_per_model", "buffer.batch_size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.write(t, "metrics.jsonl", record("both", fmt.Sprintf(`"time/explore_step":%d,"time/train_step":%d`, c.explore, c.train)))
			planner := r.planner(c.set...)
			planner.Rates.Slowdown = 1
			plan, err := planner.Plan()
			if err != nil {
				t.Fatal(err)
			}
			a := plan.Advice
			has := slices.Contains(a.Keys, c.key) && !slices.Contains(a.Keys, c.without)
			if !has || a.Bound != c.bound || a.Then != c.then || a.Gain > 0 != c.gains {
				t.Errorf("%+v; now %+v, then %+v", a, plan.Current.Report, plan.Recommended.Report)
			}
			if text := a.String(); !strings.Contains(text, bounds[c.bound]) || !strings.Contains(text, c.key+": "+help[c.key]) {
				t.Errorf("it says %q", text)
			}
		})
	}
}

// The times may be those of another directory. A simulation has no more rollouts than it may.
func TestPlanOfAnotherDirectory(t *testing.T) {
	r, other := newRun(t), newRun(t)
	other.write(t, "metrics.jsonl", record("both", `"time/explore_step":3,"time/train_step":2`))
	planner := r.planner()
	planner.JobDir, planner.MaxRollouts, planner.Steps = other.dir+"/p/r", 12*leastSteps, 100
	plan, err := planner.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(plan.Current.Report.Batches); n != leastSteps || !plan.Measured {
		t.Errorf("%d train steps, measured %t", n, plan.Measured)
	}
	planner.MaxRollouts--
	if _, err := planner.Plan(); err == nil || !strings.Contains(err.Error(), "a step has 12 rollouts, too many") {
		t.Error(err)
	}
}
