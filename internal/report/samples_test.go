package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// A page has the answers of the first and the last step, and decodes no others: a long run has many.
func TestAnswersOfTheEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "monitor")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 1000} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `{"step":%d,"role":"explorer","time":"2026-01-02T15:04:05.123Z","metrics":{"samples":1},`+
				`"samples":[{"prompt":"p%[1]d","response":"say ,\"samples\":[]"}]}`+"\n", i+1)
			fmt.Fprintf(&text, `{"step":%d,"role":"trainer","time":"2026-01-02T15:04:05.123Z","metrics":{"samples":1}}`+"\n", i+1)
		}
		if err := os.WriteFile(filepath.Join(dir, rundir.MetricsFile), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := read(filepath.Dir(dir), rundir.ReadTable, nil)
		if err != nil {
			t.Fatal(err)
		}
		allocs := testing.AllocsPerRun(1, func() {
			r.stages[0].samples = nil
			if err := r.readSamples(); err != nil {
				t.Fatal(err)
			}
		})
		got := r.stages[0].answers()
		if len(got) != min(n, 2) || got[0].Samples[0].Prompt != "p1" || got[len(got)-1].Samples[0].Prompt != fmt.Sprint("p", n) {
			t.Errorf("of %d steps the page has %+v", n, got)
		}
		if allocs > 500 {
			t.Errorf("%d steps take %.0f allocations", n, allocs)
		}
	}
}
