package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/rundir"
)

// A run keeps the lines that it has for people beside its metrics, each with its time, and a resumed run
// adds to them.
func TestARunKeepsWhatItSays(t *testing.T) {
	p := newProject(t, tiny, rl)
	for _, steps := range []string{"buffer.total_steps=1", "buffer.total_steps=2"} {
		if _, err := p.run(t, steps); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	for line := range strings.Lines(read(t, filepath.Join(p.job(), "monitor", rundir.MessagesFile))) {
		at, text, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			t.Error(err)
		}
		said = append(said, text)
	}
	if len(said) < 2 || !strings.HasPrefix(said[0], "r: mode both, algorithm grpo") ||
		!strings.Contains(strings.Join(said, ""), "resumes after step 1") {
		t.Errorf("the run keeps %q", said)
	}
}

// A run goes on if the file of its lines cannot be opened.
func TestARunThatCannotKeepWhatItSays(t *testing.T) {
	p := newProject(t, tiny, rl)
	if err := os.MkdirAll(filepath.Join(p.job(), "monitor", rundir.MessagesFile), 0o755); err != nil {
		t.Fatal(err)
	}
	var said []string
	say := func(line string) { said = append(said, line) }
	_, err := run.Run(t.Context(), t.Context(), p.load(t, "buffer.total_steps=1", noEvaluation), run.Options{Say: say})
	if err != nil || strings.Count(strings.Join(said, "\n"), "what the run says is not kept: ") != 1 {
		t.Errorf("%v; said %q", err, said)
	}
}
