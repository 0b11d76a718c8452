package studio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
)

// Four curves of a hundred runs stay in memory: if one were too many, each request would read its file.
func TestTheCacheHoldsAHundredRuns(t *testing.T) {
	const runs, steps = 100, 10_000
	var text strings.Builder
	for step := 1; step <= steps; step++ {
		text.WriteString(line(step, "explorer", `"a":1,"b":2`) + line(step, "trainer", `"c":3,"d":4`))
	}
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf(`"a metric of some length, number %d":0`, i))
	}
	text.WriteString(line(steps, "trainer", strings.Join(names, ",")))
	dir := t.TempDir()
	put(t, dir, rundir.MetricsFile, text.String())
	c := rundir.NewFile(dir, nil)
	if _, err := c.Update(func(name string) bool { return len(name) == 1 }, rundir.Mark{}); err != nil {
		t.Fatal(err)
	}
	if size := c.Size(); runs*size > maxBytes {
		t.Errorf("%d runs take %d MB, and there is room for %d MB", runs, runs*size>>20, maxBytes>>20)
	}
}
