package run_test

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
)

// A number in info that is not finite costs only that entry. The run goes on, and so does a resumed
// run.
func TestInfinityInInfoEndsNoRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	cfg := p.load(t, `data_processor.experience_pipeline.operators=[{name: expr_mapper, args: {info: {per: "1.0 / (reward - reward)"}}}]`)
	var said strings.Builder
	if _, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(s string) { said.WriteString(s + "\n") }}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "left out info.per, wholly or in part, of") {
		t.Errorf("nothing is said of the entry:\n%s", &said)
	}
}
