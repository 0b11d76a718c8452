package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

// smolLM2Files is SmolLM2-135M-Instruct as a directory, which servers read.
func smolLM2Files(t *testing.T) string {
	t.Helper()
	gguf := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if gguf == "" {
		trinitytest.Missing(t, "needs SmolLM2-135M-Instruct: set TRINITY_SMOLLM2_GGUF to the GGUF file")
	}
	dir := filepath.Join(t.TempDir(), "model")
	convert := exec.CommandContext(t.Context(), "go", "run", "../cmd/trinity", "convert", gguf, "--output", dir)
	if out, err := convert.CombinedOutput(); err != nil {
		t.Fatalf("convert: %v\n%s", err, out)
	}
	return dir
}

// trainWithVLLM runs the example, whose server the run starts, and returns the accuracy of each
// step. The server must get a proven version for each, and end with the run.
func trainWithVLLM(t *testing.T, overrides ...string) (accuracy []float64) {
	t.Helper()
	dir, left := t.TempDir(), processesLeft(t)
	records := runExampleIn(t, dir, "vllm_arithmetic/vllm.yaml", append(overrides, "buffer.explorer_input.eval_tasksets=[]",
		"explorer.eval_interval=99", "explorer.max_timeout=1200", "cluster.start_timeout=1200", "synchronizer.sync_timeout=1200")...)
	accuracy = curve(records, "rollout/accuracy/mean")
	if proofs := curve(records, "sync/probe_mean"); len(proofs) < len(accuracy) {
		t.Errorf("%d versions were proven in %d steps", len(proofs), len(accuracy))
	}
	if names := left(); len(names) > 0 {
		t.Errorf("processes are left: %s", strings.Join(names, ", "))
	}
	return accuracy
}

// The example with vLLM runs with an adapter and with all weights.
func TestVLLMArithmetic(t *testing.T) {
	t.Setenv("TRINITY_VLLM_PYTHON", trinitytest.Python(t, "TRINITY_VLLM_PYTHON", "vllm"))
	trinitytest.Long(t, "starts vLLM and trains", "engine/served", "internal/cluster", "launcher", "weights", "examples")
	t.Setenv("TRINITY_MODEL_PATH", smolLM2Files(t))
	t.Chdir("..")
	for name, overrides := range map[string][]string{"adapter": nil, "all weights": {"model.lora_configs=[]", "algorithm.optimizer.lr=1e-5"}} {
		t.Run(name, func(t *testing.T) {
			if steps := trainWithVLLM(t, append(overrides, "buffer.total_steps=2", "buffer.batch_size=2",
				"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=16")...); len(steps) != 2 {
				t.Errorf("%d steps, want 2", len(steps))
			}
		})
	}
}

// The example with vLLM learns to add, in half of its steps.
func TestVLLMArithmeticLearns(t *testing.T) {
	t.Setenv("TRINITY_VLLM_PYTHON", trinitytest.Python(t, "TRINITY_VLLM_PYTHON", "vllm"))
	trinitytest.TooLong(t, "starts vLLM and trains for many minutes")
	t.Setenv("TRINITY_MODEL_PATH", smolLM2Files(t))
	t.Chdir("..")
	accuracy := trainWithVLLM(t, "buffer.total_steps=8")
	if n := len(accuracy); n != 8 || accuracy[n-1] < 0.5 || accuracy[n-1] < accuracy[0]+0.3 {
		t.Errorf("accuracy %.2f; want 8 steps, at least 0.50 and 0.30 more at the end", accuracy)
	}
}

// A real server keeps the contract of a sampler.
func TestVLLMIsASampler(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_VLLM_PYTHON", "vllm")
	trinitytest.Long(t, "starts vLLM", "engine/served", "internal/cluster", "launcher", "examples")
	path := smolLM2Files(t)
	about, err := model.ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	sampler := startVLLM(t, python, engine.SamplerSpec{ModelPath: path, MaxModelLen: 32})
	options := trinitytest.SamplerOptions{Vocab: about.VocabSize, Tolerance: 1e-3}
	trinitytest.Sampler(t, options, func(*testing.T) trinity.Sampler { return sampler })
}
