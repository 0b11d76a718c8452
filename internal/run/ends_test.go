package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// Who watches a run learns from its directory how it ended, and with which error.
func TestARunKeepsItsEnd(t *testing.T) {
	p := newProject(t, tiny, rl)
	ends := func() map[string]rundir.Part {
		t.Helper()
		about, err := rundir.ReadAbout(filepath.Join(p.job(), "monitor"))
		if err != nil {
			t.Fatal(err)
		}
		return about.Parts
	}
	if _, err := p.run(t, noEvaluation, "buffer.total_steps=1"); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"explorer", "trainer"} {
		if got := ends()[part]; got.Status != monitor.Finished || got.Error != "" {
			t.Errorf("%s of a finished run: %+v", part, got)
		}
	}
	_, err := p.run(t, noEvaluation, "buffer.total_steps=12", "trainer.trainer_type=test_failing",
		"explorer.rollout_model.engine_type=test_failing")
	if err == nil {
		t.Fatal("the run did not fail")
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	for _, part := range []string{"explorer", "trainer"} {
		if got := ends()[part]; got.Status != monitor.Failed || got.Error != line {
			t.Errorf("%s of a failed run: %+v, want %q", part, got, line)
		}
	}
}
