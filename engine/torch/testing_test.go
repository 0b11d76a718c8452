package torch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/launcher"
	_ "github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// workers are the plug-ins that the tests share, by ranks: a worker needs seconds to start. Each
// keeps an engine open, so that its worker lives until the end.
var workers struct {
	sync.Mutex
	byRanks map[int]*plugin
	keepers []engine.Trainer
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, e := range workers.keepers {
		if err := e.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// realPlugin returns the plug-in with the Python of the environment, or skips the test without one.
func realPlugin(t testing.TB, values map[string]any) *plugin {
	t.Helper()
	python := trinitytest.TorchPython(t)
	all := map[string]any{"python": python, "compute_dtype": f32} // also on GPUs, to compare with the embedded engine
	for k, v := range values {
		all[k] = v
	}
	opener, err := registry.Trainers.Build("torch", all)
	if err != nil {
		t.Fatal(err)
	}
	return opener.(*plugin)
}

// onRanks returns a plug-in whose worker has so many ranks.
func onRanks(t testing.TB, ranks int) *plugin {
	t.Helper()
	workers.Lock()
	defer workers.Unlock()
	if p := workers.byRanks[ranks]; p != nil {
		return p
	}
	p := realPlugin(t, map[string]any{"head_rows": 3})
	spec := tiny("qwen2")
	spec.Place = here(t, ranks)
	keeper, err := p.OpenTrainer(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if workers.byRanks == nil {
		workers.byRanks = map[int]*plugin{}
	}
	workers.byRanks[ranks] = p
	workers.keepers = append(workers.keepers, keeper)
	return p
}

// here is this machine.
func here(t testing.TB, ranks int) engine.Place {
	t.Helper()
	local, err := launcher.Launchers.Build("local")
	if err != nil {
		t.Fatal(err)
	}
	gpus, _ := local.GPUs()
	if gpus > 0 && ranks > gpus {
		t.Skipf("%d ranks need as many GPUs; this machine has %d", ranks, gpus)
	}
	programs := &cluster.Cluster{Launcher: local, Patience: 5 * time.Minute}
	return engine.Place{Programs: programs, Nodes: 1, Ranks: ranks, GPUs: min(gpus, ranks)}
}

// tiny is a model that the tests of the embedded engine have recorded with PyTorch.
func tiny(name string) engine.TrainerSpec {
	return engine.TrainerSpec{ModelPath: filepath.Join("..", "cpu", "testdata", name), MicroTokens: 64, MaxModelLen: 48}
}

// trained is tiny for training, with everything that an engine can do.
func trained(name string) engine.TrainerSpec {
	spec := tiny(name)
	spec.Train, spec.Ahead, spec.Reference = true, true, true
	return spec
}

// opened opens an engine and closes it after the test.
func opened(t testing.TB, p engine.TrainerOpener, spec engine.TrainerSpec) engine.Trainer {
	t.Helper()
	if ours, ok := p.(*plugin); ok && spec.Place.Programs == nil && ours.worker != nil {
		spec.Place.Nodes, spec.Place.Ranks = 1, ours.worker.ranks
	} else if spec.Place.Programs == nil {
		spec.Place = here(t, 1)
	}
	e, err := p.OpenTrainer(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}
