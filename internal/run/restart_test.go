package run_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Trainers.Register("test_lossy", "The embedded engine, whose worker dies now and then.", func() engine.TrainerOpener {
		return &lossyTrainer{TrainerOpener: registry.Trainers.Default("cpu").(engine.TrainerOpener)}
	})
}

// lossy tells the engines of a test at which of their optimizer steps they lose their worker.
var lossy struct {
	steps int
	at    []int
}

type lossyTrainer struct{ engine.TrainerOpener }

func (o *lossyTrainer) OpenTrainer(ctx context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	e, err := o.TrainerOpener.OpenTrainer(ctx, spec)
	if err != nil {
		return nil, err
	}
	return lossyEngine{e.(engine.Publisher)}, nil
}

type lossyEngine struct{ engine.Publisher }

func (e lossyEngine) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	if lossy.steps++; slices.Contains(lossy.at, lossy.steps) {
		return nil, &trinity.LostError{Err: errors.New("rank 1 has died in step")}
	}
	return e.Publisher.OptimStep(ctx, p)
}

// A run that loses its worker resumes from the last checkpoint, as often as it may, and learns what an
// undisturbed run learns.
func TestARunSurvivesTheLossOfAWorker(t *testing.T) {
	try := func(at []int, settings ...string) (curves []float64, said string, err error) {
		t.Helper()
		p := newProject(t, tiny, rl)
		lossy.steps, lossy.at = 0, at
		settings = append(settings, noEvaluation, "buffer.total_steps=6", "trainer.save_interval=2", "trainer.trainer_type=test_lossy",
			"synchronizer.sync_method=directory")
		var told []string
		say := func(s string) { told = append(told, s) }
		sum, err := run.Run(t.Context(), t.Context(), p.load(t, settings...), run.Options{Say: say})
		if err == nil && (len(sum.Stages) != 1 || sum.Stages[0].Steps != 6) {
			t.Errorf("the summary is %+v, want one stage of 6 steps", sum.Stages)
		}
		curves = append(curve(t, p.job(), "trainer", "actor/grad_norm"), curve(t, p.job(), "explorer", "rollout/reward/mean")...)
		return curves, strings.Join(told, "\n"), err
	}
	want, _, err := try(nil)
	if err != nil || len(want) < 6 {
		t.Fatalf("%v: %v", want, err)
	}
	got, said, err := try([]int{1, 4}, "trainer.max_restarts=2", "continue_from_checkpoint=false")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: %v\nwant %v", err, got, want)
	}
	for _, line := range []string{
		"rank 1 has died in step; the run resumes from its last checkpoint (restart 1 of trainer.max_restarts = 2)",
		"(restart 2 of trainer.max_restarts = 2)",
	} {
		if !strings.Contains(said, line) {
			t.Errorf("the run does not say %q: %s", line, said)
		}
	}
	for _, settings := range [][]string{nil, {"trainer.max_restarts=1"}} {
		_, _, err := try([]int{3, 4}, settings...)
		if err == nil || !strings.Contains(err.Error(), "rank 1 has died") {
			t.Errorf("%v: %v; want the loss of the worker", settings, err)
		}
	}
}
