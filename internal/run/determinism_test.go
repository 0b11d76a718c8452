package run_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
)

// Twenty steps of the whole job give the same rollouts and the same bytes of weights on any number
// of cores, and beside another load.
func TestSameRunOnAnyNumberOfCores(t *testing.T) {
	results := map[string][]byte{}
	for _, c := range []struct {
		cores int
		load  bool
	}{{1, false}, {2, true}, {3, false}, {5, true}} {
		name := fmt.Sprintf("%d cores, load %t", c.cores, c.load)
		p := newProject(t, tiny, rl)
		overrides := []string{"buffer.total_steps=20", "trainer.save_interval=20", "explorer.eval_interval=100"}
		stop := func() {}
		if c.load {
			stop = busy()
		}
		p.start(t, []string{fmt.Sprintf("GOMAXPROCS=%d", c.cores)}, overrides...).finish(t)
		stop()
		weights, err := os.ReadFile(filepath.Join(p.job(), "global_step_20", "actor", "huggingface", "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		rewards := curve(t, p.job(), "explorer", "rollout/reward/mean")
		if len(rewards) != 20 {
			t.Fatalf("%s: %d steps", name, len(rewards))
		}
		results[name] = append(fmt.Append(nil, rewards), weights...)
	}
	names := slices.Sorted(maps.Keys(results))
	for _, name := range names[1:] {
		if !bytes.Equal(results[name], results[names[0]]) {
			t.Errorf("%s gives another run than %s", name, names[0])
		}
	}
}

// busy keeps a core busy until the function that it returns is called.
func busy() (stop func()) {
	var done atomic.Bool
	go func() {
		for !done.Load() {
		}
	}()
	return func() { done.Store(true) }
}
