package run_test

import (
	"os"
	"testing"
)

// If the experiences end after a step with a checkpoint, the run can resume from two checkpoints:
// that of its last step, and the one before. The buffer keeps what both need.
func TestARunResumesFromTheCheckpointBeforeTheLast(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	halves := `data_processor.experience_pipeline.operators=[{name: starlark, ` +
		`args: {script: "def process(group):\n    return group[:1] if group[0]['step'] % 2 else group"}}]`
	args := []string{"buffer.trainer_input.experience_buffer.storage_type=sql", "trainer.save_interval=1",
		"synchronizer.sync_style=explorer_driven", "explorer.eval_interval=100", halves}
	done, err := p.run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	last := done.Stages[0].Checkpoint
	if err := os.RemoveAll(last); err != nil {
		t.Fatal(err)
	}
	if _, err := p.run(t, args...); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(last); err != nil {
		t.Errorf("the run that went on has not come to its end again: %v", err)
	}
}
