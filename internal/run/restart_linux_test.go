package run_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func init() {
	registry.Trainers.Register("test_killed", "PyTorch, whose worker is killed at the steps of lossy.", func() engine.TrainerOpener {
		return &killedTrainer{registry.Trainers.Default("torch").(engine.TrainerOpener)}
	})
}

// killedTrainer is the torch trainer. A variable of its worker's processes names the run.
type killedTrainer struct{ engine.TrainerOpener }

func (o *killedTrainer) PlanMemory(engine.TrainerSpec) ([]engine.MemoryPart, error) { return nil, nil }

func (o *killedTrainer) Programs(spec engine.TrainerSpec) []engine.Program {
	return o.TrainerOpener.(interface {
		Programs(spec engine.TrainerSpec) []engine.Program
	}).Programs(spec)
}

const runVariable = "TRINITY_TEST_RUN"

func (o *killedTrainer) OpenTrainer(ctx context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	opener, err := registry.Trainers.Build("torch", map[string]any{
		"python": os.Getenv("TRINITY_TORCH_PYTHON"), "env": map[string]any{runVariable: spec.Dir},
	})
	if err != nil {
		return nil, err
	}
	e, err := opener.OpenTrainer(ctx, spec)
	if err != nil {
		return nil, err
	}
	return killedEngine{e.(engine.Publisher), spec.Dir}, nil
}

type killedEngine struct {
	engine.Publisher
	dir string
}

func (e killedEngine) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	if lossy.steps++; slices.Contains(lossy.at, lossy.steps) {
		killRank(e.dir, lossy.steps%2)
	}
	return e.Publisher.OptimStep(ctx, p)
}

// killRank kills a rank of the worker of the run in a directory.
func killRank(dir string, rank int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, _ := os.ReadFile(file) // other users' are not read
		local := []byte("\x00LOCAL_RANK=" + strconv.Itoa(rank) + "\x00")
		if bytes.Contains(environ, []byte(runVariable+"="+dir+"\x00")) && bytes.Contains(environ, local) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// A run whose ranks are killed learns the same bits as an undisturbed one.
func TestARunSurvivesKilledRanks(t *testing.T) {
	trinitytest.TorchPython(t)
	train := func(at ...int) []float64 {
		t.Helper()
		p := newProject(t, tiny, rl)
		lossy.steps, lossy.at = 0, at
		if _, err := runConfig(t, p.load(t, noEvaluation, "buffer.total_steps=2", "trainer.save_interval=1", "trainer.max_restarts=2",
			"trainer.trainer_type=test_killed", "cluster.trainer_ranks=2", "synchronizer.sync_method=directory")); err != nil {
			t.Fatal(err)
		}
		return append(curve(t, p.job(), "trainer", "actor/grad_norm"), curve(t, p.job(), "explorer", "rollout/reward/mean")...)
	}
	want := train()
	if got := train(2, 5); len(want) < 4 || !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
