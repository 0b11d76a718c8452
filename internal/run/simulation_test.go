package run_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/plan"
	"github.com/trinity-go/trinity/internal/simulation"
)

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
				planner := &plan.Planner{Rates: r, MaxStaleness: 4, Steps: 8, Load: func(more ...string) (*config.Config, error) {
					return config.Load(p.config, config.Options{Overrides: slices.Concat(overrides, more)})
				}}
				planned, err := planner.Plan()
				if err != nil {
					t.Fatal(err)
				}
				simulated := planned.Current.Report
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
