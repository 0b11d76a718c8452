package run_test

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
)

// A run reports that its last train step had fewer experiences than a batch.
func TestAShortStepIsReported(t *testing.T) {
	p := newProject(t, tiny, rl)
	var said strings.Builder
	options := run.Options{Say: func(line string) { said.WriteString(line + "\n") }}
	if _, err := run.Run(t.Context(), t.Context(), p.load(t, "buffer.train_batch_size=20", "buffer.total_steps=1",
		"trainer.total_steps=1"), options); err != nil {
		t.Fatal(err)
	}
	if want := "train step 1, the last one, had 12 of 20 experiences"; !strings.Contains(said.String(), want) {
		t.Errorf("said %q, want %q", &said, want)
	}
}
