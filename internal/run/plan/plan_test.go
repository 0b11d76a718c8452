package plan

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/simulation"
	_ "github.com/trinity-go/trinity/standard" // every built-in plug-in
)

// earlier is a run whose metrics tell its speed.
type earlier struct{ dir string }

func newRun(t *testing.T) earlier {
	t.Helper()
	r := earlier{t.TempDir()}
	const yaml = `
project: p
name: r
checkpoint_root_dir: DIR
mode: both
model: {model_path: DIR/model, max_prompt_tokens: 40, max_response_tokens: 6}
algorithm: {algorithm_type: grpo, repeat_times: 4}
buffer:
  batch_size: 3
  total_steps: 8
  explorer_input:
    taskset: {name: digits, path: DIR/train.jsonl, format: {prompt_key: question, response_key: answer}}
    default_workflow_type: simple_workflow
    default_reward_fn_type: math_reward
monitor: {monitor_type: jsonl}
`
	if err := os.WriteFile(filepath.Join(r.dir, "config.yaml"), []byte(strings.ReplaceAll(yaml, "DIR", r.dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	return r
}

// write writes a file of metrics and returns its path.
func (r earlier) write(t *testing.T, file, text string) string {
	t.Helper()
	path := filepath.Join(r.dir, "p", "r", "monitor", filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r earlier) planner(overrides ...string) *Planner {
	return &Planner{MaxStaleness: 4, Steps: 8, Load: func(more ...string) (*config.Config, error) {
		return config.Load(filepath.Join(r.dir, "config.yaml"), config.Options{Overrides: slices.Concat(overrides, more)})
	}}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// record returns one record of metrics.
func record(role, values string) string {
	return fmt.Sprintf(`{"step":1,"role":"%s","metrics":{%s}}`+"\n", role, values)
}

// The metrics of an earlier run tell the speed of both sides, even if it was killed in the middle
// of a line. The first step also does what a run does only once.
func TestRatesAreReadFromAnEarlierRun(t *testing.T) {
	r := newRun(t)
	step := func(explore int) string {
		return record("both", fmt.Sprintf(`"time/explore_step":%d,"time/train_step":2,"time/sync_weight":0,`+
			`"prompt_length/mean":20,"response_length/mean":4,"response_length/max":6`, explore))
	}
	r.write(t, "metrics.jsonl", step(100)+step(3)+step(3)+`{"step":`)
	plan, err := r.planner().Plan()
	if err != nil {
		t.Fatal(err)
	}
	if r := plan.Rates; !plan.Measured || !near(r.Explore, 3) || !near(r.Train, 2) || r.Prompt != 20 || r.Lengths.Mean != 4 ||
		r.Slowdown != 2 {
		t.Errorf("rates %+v", r)
	}
	// If nothing overlaps, the simulation of the run as it was takes the measured times.
	if r := plan.Current.Report; !near(r.ExploreSeconds, 3) || r.Staleness.Max != 1 {
		t.Errorf("%+v, at %+v", r, plan.Rates)
	}
	for _, c := range plan.Choices {
		if c.Report.Staleness.Max > 4 || c.Report.Dropped > 0 {
			t.Errorf("%v exceeds the bound: %+v", c.Set, c.Report)
		}
	}
}

func TestMetricsThatTellNoSpeedAreErrors(t *testing.T) {
	r := newRun(t)
	for text, want := range map[string]string{
		"no record\n": "metrics.jsonl:1: not a record of the jsonl monitor",
		"":            "metrics.jsonl has no steps of both",
		record("explorer", `"time/explore_step":5`): "metrics.jsonl has no steps of both",
	} {
		r.write(t, "metrics.jsonl", text)
		if _, err := r.planner().Plan(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line with %q", text, err, want)
		}
	}
}

// The metrics of several explorers are in directories of their names. A step is the sum of theirs.
func TestRatesAddUpOverExplorers(t *testing.T) {
	r := newRun(t)
	for file, text := range map[string]string{
		"metrics.jsonl":       record("trainer", `"time/train_step":4,"time/sync_weight":0`),
		"left/metrics.jsonl":  record("explorer", `"time/explore_step":5`),
		"right/metrics.jsonl": record("explorer", `"time/explore_step":7`),
		"kept/metrics.jsonl":  record("trainer", `"time/train_step":100`),
	} {
		r.write(t, file, text)
	}
	planner := r.planner("mode=train", "buffer.train_batch_size=24", "synchronizer.sync_style=fixed")
	planner.Explorers = []int{1, 2}
	plan, err := planner.Plan()
	if err != nil {
		t.Fatal(err)
	}
	now := plan.Current.Report
	if plan.Current.Explorers != 2 || !near(now.ExploreSeconds, 6) || !near(now.TrainSeconds, 4) || now.Batches[0].Rollouts != 24 {
		t.Errorf("the run as it was: %d explorers, %+v", plan.Current.Explorers, now)
	}
	if math.Abs(plan.Rates.Explore-12) > 1 {
		t.Errorf("one explorer would take %v s for a step of both", plan.Rates.Explore)
	}
	for _, c := range plan.Choices {
		if c.Explorers == 1 && !slices.Contains(c.Set, "buffer.batch_size=6") || c.Report.Batches[0].Rollouts != 24 {
			t.Errorf("%d explorers: %v, %d rollouts", c.Explorers, c.Set, c.Report.Batches[0].Rollouts)
		}
	}
}

// Without a batch size, a train step takes an explore step of every explorer, also in plans with
// another number of explorers.
func TestPlansCountTheRolloutsOfAllExplorers(t *testing.T) {
	r := newRun(t)
	r.write(t, "metrics.jsonl", record("trainer", `"time/train_step":40`))
	for _, name := range []string{"left", "right"} {
		r.write(t, name+"/metrics.jsonl", record("explorer", `"time/explore_step":6`))
	}
	planner := r.planner()
	planner.Explorers = []int{1, 2, 3}
	plan, err := planner.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if !near(plan.Rates.Train, 40) || plan.Rates.Slowdown != 1 {
		t.Errorf("rates %+v, of explorers on machines of their own", plan.Rates)
	}
	for _, c := range append(plan.Choices, plan.Current) {
		if c.Report.Batches[0].Rollouts != 24 {
			t.Errorf("%d explorers: %d rollouts in a train step, want 24", c.Explorers, c.Report.Batches[0].Rollouts)
		}
	}
}

// Of choices that are about as fast, the freshest comes first.
func TestByMerit(t *testing.T) {
	choice := func(offset int, perHour, staleness float64) Choice {
		c := Choice{Offset: offset, Report: &simulation.Report{RolloutsPerHour: perHour}}
		c.Report.Staleness.Mean = staleness
		return c
	}
	choices := []Choice{choice(0, 50, 0), choice(1, 99, 1), choice(2, 100, 2), choice(3, 70, 0)}
	byMerit(choices)
	var got []int
	for _, c := range choices {
		got = append(got, c.Offset)
	}
	if want := []int{1, 2, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}
