package examples

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trinity-go/trinity"
)

// TestAlgorithmsOfSmolLM2 runs the examples of a language model in processes of their own: nothing is warned of, no rollout fails, and held-out sums
// come out better. Memory is the largest resident set of the process.
func TestAlgorithmsOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	t.Chdir("..")
	dir := t.TempDir()
	binary := filepath.Join(dir, "trinity")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/trinity").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sampled, greedy := heldOut(t, runExampleIn(t, dir, "algorithms_smollm2/grpo.yaml", "model.model_path="+model, "name=unchanged",
		"stages.0.algorithm.optimizer.lr=0", "stages.0.buffer.total_steps=1"))
	r := results{Values: map[string][]float64{asItIs: {sampled, greedy}}, Machine: map[string][]float64{}}
	for _, algorithm := range ofSmolLM2 {
		t.Run(algorithm, func(t *testing.T) {
			example := "algorithms_smollm2/" + algorithm + ".yaml"
			cmd := exec.Command(binary, "run", "--config", filepath.Join("examples", example), "model.model_path="+model, "checkpoint_root_dir="+dir, "monitor.monitor_type=jsonl")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out.Bytes())
			}
			if strings.Contains(strings.ToLower(out.String()), "warn") {
				t.Errorf("there was a warning:\n%s", out.Bytes())
			}
			job := filepath.Join(dir, "trinity-examples", "algorithms_smollm2_"+algorithm)
			if failed, err := os.ReadFile(filepath.Join(job, "learn", "log", "failed_rollouts.log")); err == nil && len(failed) > 0 {
				t.Errorf("rollouts failed:\n%s", failed)
			}
			learned := records(t, filepath.Join(job, "learn", "monitor", "metrics.jsonl"))
			seconds := curve(learned, "perf/time_per_step")
			if len(seconds) != 20 {
				t.Fatalf("%d steps were trained, want 20", len(seconds))
			}
			after, best := heldOut(t, records(t, filepath.Join(job, "evaluate", "monitor", "metrics.jsonl")))
			if after < sampled+0.1 {
				t.Errorf("accuracy of held-out sums went from %.3f to %.3f, want 0.1 more", sampled, after)
			}
			peak := float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / (1 << 20)
			r.Values[algorithm] = []float64{after, best}
			r.Values[algorithm+" tokens"] = []float64{math.Round(mean(curve(learned, "perf/total_num_tokens")))}
			r.Machine[algorithm+" seconds, GiB"] = []float64{mean(seconds), peak}
		})
	}
	hold(t, "examples/algorithms_smollm2", r)
}

// heldOut is the share of right replies to the sums that training never sees.
func heldOut(t *testing.T, records []trinity.Record) (sampled, greedy float64) {
	t.Helper()
	s, g := curve(records, "bench/sampled/accuracy/mean@8"), curve(records, "bench/greedy/accuracy/mean@1")
	if len(s) != 1 || len(g) != 1 {
		t.Fatalf("the last stage evaluated %d and %d times, want once", len(s), len(g))
	}
	return s[0], g[0]
}
