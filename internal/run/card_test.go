package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/learn"
)

// A run writes a card beside the model or the adapter of its last checkpoint. It tells of the run,
// and of the earlier runs whose checkpoints the run went on from.
func TestARunWritesAModelCard(t *testing.T) {
	p := newProject(t, tiny, rl)
	t.Chdir(p.dir)
	t.Setenv("HF_HOME", filepath.Join(p.dir, "hf"))
	checkpoints := filepath.Dir(p.job())
	for _, overrides := range [][]string{
		{"name=first", "buffer.total_steps=2", "model.model_path=model", "model.lora_configs=[{lora_rank: 3, lora_alpha: 3}]"},
		{"name=second", "buffer.total_steps=1", "model.model_path=" + filepath.Join(checkpoints, "first/global_step_2")},
	} {
		if _, err := p.run(t, overrides...); err != nil {
			t.Fatal(err)
		}
	}
	first := read(t, filepath.Join(checkpoints, "first/global_step_2/actor/lora_adapter/README.md"))
	second := read(t, filepath.Join(checkpoints, "second/global_step_1/actor/lora_adapter/README.md"))
	for _, want := range []string{
		"library_name: peft\n", "\n# second\n", "A LoRA adapter for `model`", "\n## Training: first\n", "\n## Training: second\n",
		"| algorithm | `grpo` |\n| data | `train.jsonl` |\n| steps | 1 |\n| seed | 3 |\n", "| `rollout/reward/mean` | ",
	} {
		if !strings.Contains(second, want) {
			t.Errorf("the card lacks %q:\n%s", want, second)
		}
	}
	inOrder := strings.Index(second, ": first") < strings.Index(second, ": second")
	if strings.Contains(first, "second") || !strings.Contains(first, "\n## Training\n") || !inOrder {
		t.Errorf("the cards are\n%s\nand\n%s", first, second)
	}

	// An adapter is for the weights that it was trained on, whatever these came from.
	if _, err := p.run(t, "name=whole", "buffer.total_steps=1", "model.model_path=model"); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(checkpoints, "whole/global_step_1/actor/huggingface")
	if _, err := p.run(t, "name=third", "buffer.total_steps=1", "model.model_path="+whole,
		"model.lora_configs=[{lora_rank: 3, lora_alpha: 3}]"); err != nil {
		t.Fatal(err)
	}
	third := read(t, filepath.Join(checkpoints, "third/global_step_1/actor/lora_adapter/README.md"))
	if !strings.Contains(third, "A LoRA adapter for `huggingface`") || !strings.Contains(third, "\n## Training: whole\n") {
		t.Errorf("the card is\n%s", third)
	}

	// If the earlier run is gone, the card begins with the run that is left.
	if err := os.RemoveAll(filepath.Join(checkpoints, "first")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := learn.WriteCard(dir, "merged", filepath.Join(checkpoints, "second/global_step_1"), "transformers"); err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(dir, "README.md"))
	if strings.Contains(text, ": first") || !strings.Contains(text, "# merged\n\nA model that began as `model`") {
		t.Errorf("the card is\n%s", text)
	}
}
