package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// coloursModel writes the example's model with the Python that has vLLM, which has torch, transformers and Pillow as well.
func coloursModel(t *testing.T) {
	t.Helper()
	python := trinitytest.Python(t, "TRINITY_VLLM_PYTHON", "vllm", "torch", "transformers", "PIL")
	trinitytest.TooLong(t, "trains a model that sees with PyTorch")
	dir := filepath.Join(t.TempDir(), "model")
	if out, err := exec.CommandContext(t.Context(), python, "vlm_colours/model.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("model.py: %v\n%s", err, out)
	}
	t.Setenv("TRINITY_VLLM_PYTHON", python)
	t.Setenv("TRINITY_TORCH_PYTHON", python)
	t.Setenv("TRINITY_MODEL_PATH", dir)
	if _, err := os.Stat(filepath.Join(dir, "preprocessor_config.json")); err != nil {
		t.Fatal(err)
	}
	t.Chdir("..")
}

// A model of random weights learns colours of drawings from demonstrations, then from rewards: guesses are right in a third
// of the drawings, and in half if the model sees which two colours a drawing has.
func TestVLMColours(t *testing.T) {
	coloursModel(t)
	records := runExampleIn(t, t.TempDir(), "vlm_colours/colours.yaml", "stages.1.buffer.total_steps=3",
		"cluster.start_timeout=1200", "stages.1.explorer.max_timeout=1200", "synchronizer.sync_timeout=1200")
	accuracy := curve(records, "rollout/accuracy/mean")
	if len(accuracy) != 3 || accuracy[0]+accuracy[1]+accuracy[2] < 3*0.5 {
		t.Errorf("accuracy %.2f, want 3 steps, and at least 0.50 on average", accuracy)
	}
}
