package examples

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/cli"
	"github.com/trinity-go/trinity/trinitytest"
)

// In the example with vLLM, a server that the run starts samples two steps, and gets a proven version after each.
func TestVLLMArithmetic(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_VLLM_PYTHON", "vllm")
	gguf := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if gguf == "" {
		trinitytest.Missing(t, "needs SmolLM2-135M-Instruct: set TRINITY_SMOLLM2_GGUF to the GGUF file")
	}
	trinitytest.Long(t, "starts vLLM and trains", "engine/served", "internal/cluster", "launcher", "weights", "examples")
	dir := t.TempDir()
	t.Setenv("TRINITY_MODEL_PATH", filepath.Join(dir, "model"))
	t.Setenv("TRINITY_VLLM_PYTHON", python)
	t.Chdir("..")
	if code := cli.Main([]string{"convert", gguf, "--output", os.Getenv("TRINITY_MODEL_PATH")}, nil, os.Stdout, os.Stderr); code != 0 {
		t.Fatalf("convert ended with %d", code)
	}
	records := runExampleIn(t, dir, "vllm_arithmetic/vllm.yaml", "buffer.total_steps=2", "buffer.batch_size=2", "explorer.eval_interval=9",
		"buffer.explorer_input.eval_tasksets=[]", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=16",
		"cluster.start_timeout=1200", "explorer.max_timeout=1200", "synchronizer.sync_timeout=1200")
	if losses, proofs := curve(records, "actor/final_loss"), curve(records, "sync/probe_mean"); len(losses) != 2 || len(proofs) == 0 {
		t.Errorf("losses %v, probes %v; want two steps, and versions that were proven", losses, proofs)
	}
}
