package run_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/internal/simulation"
	"github.com/trinity-go/trinity/run/plan"
)

func (p project) planner(t *testing.T, r simulation.Rates, overrides ...string) *plan.Planner {
	t.Helper()
	return &plan.Planner{Rates: r, MaxStaleness: 4, Steps: 8, Load: func(more ...string) (*config.Config, error) {
		return config.Load(p.config, config.Options{Overrides: slices.Concat(overrides, more)})
	}}
}

// With fixed synchronization, time decides neither which weights sample nor which rollouts train,
// so a simulation gives the same steps as the run.
func TestASimulationEqualsTheRun(t *testing.T) {
	for _, overrides := range [][]string{
		nil,
		{"synchronizer.sync_offset=1"},
		{"synchronizer.sync_interval=2", "synchronizer.sync_offset=1"},
		{"synchronizer.sync_interval=3", "synchronizer.sync_offset=2", "buffer.train_batch_size=9"},
		{"synchronizer.sync_interval=3", "algorithm.sample_strategy=staleness_control", "algorithm.sample_strategy_args.max_staleness=2"},
	} {
		t.Run(fmt.Sprint(overrides), func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			overrides = append(overrides, noEvaluation, "trainer.save_interval=100")
			if _, err := p.run(t, overrides...); err != nil {
				t.Fatal(err)
			}
			var versions []int64
			var batches []simulation.Batch
			for _, e := range metrics(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")) {
				if v, ok := e.Metrics["rollout/model_version"].(float64); ok {
					versions = append(versions, int64(v))
				}
				if tasks, ok := e.Metrics["sample/task_count"].(float64); ok {
					of := func(name string) float64 { v, _ := e.Metrics["sample/model_version/"+name].(float64); return v }
					batches = append(batches, simulation.Batch{Rollouts: int(tasks), OldestVersion: int64(of("min")),
						NewVersion: int64(of("max")), MeanVersion: of("mean")})
				}
			}
			for _, r := range []simulation.Rates{{Explore: 3, Train: 1},
				{Explore: 1, Train: 3, Sync: 1, Slowdown: 1, Lengths: simulation.Lengths{Spread: 1}}} {
				plan, err := p.planner(t, r, overrides...).Plan()
				if err != nil {
					t.Fatal(err)
				}
				simulated := plan.Current.Report
				if !slices.Equal(simulated.Versions, versions) {
					t.Errorf("simulated explore steps sample with %v, those of the run with %v", simulated.Versions, versions)
				}
				if len(batches) != len(simulated.Batches) {
					t.Fatalf("%d simulated train steps, %d of the run", len(simulated.Batches), len(batches))
				}
				for i, b := range simulated.Batches {
					real := batches[i]
					if b.OldestVersion != real.OldestVersion || b.NewVersion != real.NewVersion ||
						fmt.Sprintf("%.9f", b.MeanVersion) != fmt.Sprintf("%.9f", real.MeanVersion) || (b.Rollouts == 0) != (real.Rollouts == 0) {
						t.Errorf("train step %d: %+v simulated, %+v in the run", i+1, b, real)
					}
				}
			}
		})
	}
}

// The metrics of an earlier run tell the speed of both sides, even if it was killed in the middle
// of a line.
func TestRatesAreReadFromAnEarlierRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, noEvaluation); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.job(), "monitor", "metrics.jsonl")
	write(t, path, read(t, path)+`{"step":`)
	plan, err := p.planner(t, simulation.Rates{}, noEvaluation).Plan()
	if err != nil {
		t.Fatal(err)
	}
	if r := plan.Rates; !plan.Measured || r.Explore <= 0 || r.Train <= 0 || r.Prompt <= 0 || r.Lengths.Mean <= 0 ||
		r.Lengths.Mean > 6 || r.Slowdown != 2 {
		t.Errorf("rates %+v", r)
	}
	// Where nothing overlaps the run as it was is simulated with the times that were measured.
	if r := plan.Current.Report; math.Abs(r.ExploreSeconds/plan.Rates.Explore-1) > 1e-9 || r.Staleness.Max != 1 {
		t.Errorf("%+v, at %+v", r, plan.Rates)
	}
	for _, c := range plan.Choices {
		if c.Report.Staleness.Max > 4 || c.Report.Dropped > 0 {
			t.Errorf("%v exceeds the bound: %+v", c.Set, c.Report)
		}
	}
	write(t, path, "no record\n")
	_, err = p.planner(t, simulation.Rates{}, noEvaluation).Plan()
	oneLine(t, err, path+":1", "not a record")
}

// The metrics of several explorers are in directories of their names. A step is the sum of theirs.
func TestRatesAddUpOverExplorers(t *testing.T) {
	p := newProject(t, tiny, rl)
	record := func(role, values string) string {
		return fmt.Sprintf(`{"step":1,"role":"%s","metrics":{%s}}`+"\n", role, values)
	}
	for file, text := range map[string]string{
		"metrics.jsonl":       record("trainer", `"time/train_step":4,"time/sync_weight":0`),
		"left/metrics.jsonl":  record("explorer", `"time/explore_step":5`),
		"right/metrics.jsonl": record("explorer", `"time/explore_step":7`),
		"kept/metrics.jsonl":  record("trainer", `"time/train_step":100`),
	} {
		write(t, filepath.Join(p.job(), "monitor", file), text)
	}
	planner := p.planner(t, simulation.Rates{}, "mode=train", "buffer.train_batch_size=24", "synchronizer.sync_style=fixed")
	planner.Explorers = []int{1, 2}
	plan, err := planner.Plan()
	if err != nil {
		t.Fatal(err)
	}
	r := plan.Current.Report
	if plan.Current.Explorers != 2 || math.Abs(r.ExploreSeconds-6) > 1e-6 || math.Abs(r.TrainSeconds-4) > 1e-6 || r.Batches[0].Rollouts != 24 {
		t.Errorf("the run as it was: %d explorers, %+v", plan.Current.Explorers, r)
	}
	if math.Abs(plan.Rates.Explore-12) > 1 {
		t.Errorf("one explorer would take %v s for a step of both", plan.Rates.Explore)
	}
	for _, c := range plan.Choices {
		if want := []string{"buffer.batch_size=6"}; c.Explorers == 1 && !slices.Contains(c.Set, want[0]) || c.Report.Batches[0].Rollouts != 24 {
			t.Errorf("%d explorers: %v, %d rollouts", c.Explorers, c.Set, c.Report.Batches[0].Rollouts)
		}
	}
}

// Without a batch size, a train step takes an explore step of every explorer, also in plans with
// another number of explorers.
func TestPlansCountTheRolloutsOfAllExplorers(t *testing.T) {
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"), `{"step":1,"role":"trainer","metrics":{"time/train_step":40}}`+"\n")
	for _, name := range []string{"left", "right"} {
		write(t, filepath.Join(p.job(), "monitor", name, "metrics.jsonl"), `{"step":1,"role":"explorer","metrics":{"time/explore_step":6}}`+"\n")
	}
	planner := p.planner(t, simulation.Rates{})
	planner.Explorers = []int{1, 2, 3}
	plan, err := planner.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(plan.Rates.Train-40) > 1e-6 || plan.Rates.Slowdown != 1 {
		t.Errorf("rates %+v, of explorers on machines of their own", plan.Rates)
	}
	for _, c := range append(plan.Choices, plan.Current) {
		if c.Report.Batches[0].Rollouts != 24 {
			t.Errorf("%d explorers: %d rollouts in a train step, want 24", c.Explorers, c.Report.Batches[0].Rollouts)
		}
	}
}
