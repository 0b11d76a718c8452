package examples

import (
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// The example with PyTorch trains on one rank and on two.
func TestTorchArithmetic(t *testing.T) {
	trinitytest.TorchPython(t)
	trinitytest.Long(t, "trains with PyTorch", "engine/torch", "python", "examples")
	t.Chdir("..")
	var losses [][]float64
	for _, ranks := range []string{"1", "2"} {
		records := runExampleIn(t, t.TempDir(), "torch_arithmetic/torch.yaml", "cluster.trainer_ranks="+ranks,
			"stages.0.buffer.total_steps=10", "stages.1.buffer.total_steps=2", "stages.1.buffer.batch_size=12")
		losses = append(losses, curve(records, "actor/final_loss"))
	}
	one, two := losses[0], losses[1] // the two steps of rl, then the ten of warmup
	if len(one) != 12 || len(two) != 12 || one[11] > one[2]/1.5 {
		t.Fatalf("losses %v and %v; want 2 steps, and 10 that lower the loss", one, two)
	}
	for i := range one {
		if math.Abs(one[i]-two[i]) > 1e-5 {
			t.Errorf("loss %d is %v on one rank and %v on two", i, one[i], two[i])
		}
	}
}

// The example with PyTorch learns to add, and ends with its worker.
func TestTorchArithmeticLearns(t *testing.T) {
	trinitytest.TorchPython(t)
	trinitytest.Long(t, "trains with PyTorch for minutes", "engine/torch", "python", "examples")
	t.Chdir("..")
	dir, left := t.TempDir(), processesLeft(t)
	first, last := ends(t, runExampleIn(t, dir, "torch_arithmetic/torch.yaml"))
	if names := left(); len(names) > 0 {
		t.Errorf("processes are left: %s", strings.Join(names, ", "))
	}
	if last < 0.55 || last < first+0.20 {
		t.Errorf("accuracy rose from %.3f to %.3f, want at least 0.55 and 0.20 more", first, last)
	}
}
