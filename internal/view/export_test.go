package view

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// A page in HTML shows what a model wrote as text.
func TestExport(t *testing.T) {
	dir := written(t)
	html, damaged, err := Export(dir, Options{})
	if err != nil || damaged != nil {
		t.Fatal(err, damaged)
	}
	for _, want := range []string{
		"<details open><summary>Train step 7: 3 answers", "<h3>Task a, explorer step 3</h3>",
		`run 0: <b class="right">✓ right</b>, reward 1, advantage`,
		`<span class="up3" title="place 1, token 2`, "derivative -0.5", "&lt;script&gt;⏎\n",
		"run 2 failed by tool after 2 retries: broken\n    stack</pre>",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q:\n%s", want, html)
		}
	}
	if strings.Contains(string(html), "<script") || strings.ContainsAny(string(html), "\x1b\u202e") {
		t.Errorf("the page has what the model wrote:\n%s", html)
	}
	for _, c := range []struct {
		d, most float64
		want    string
	}{{-1, 1, "up3"}, {1, 1, "down3"}, {.1, 1, "down1"}, {-.5, 1, "up2"}, {math.NaN(), 1, "up3"}, {math.Inf(1), math.Inf(1), "down3"}} {
		if got := shade(c.d, c.most); got != c.want {
			t.Errorf("%v of %v is %s, want %s", c.d, c.most, got, c.want)
		}
	}
	for n, want := range map[int][]int64{2: {1, 2}, 5: {1, 2, 3, 4, 5}, 9: {1, 3, 5, 7, 9}} {
		steps := make([]int64, n)
		for i := range steps {
			steps[i] = int64(i + 1)
		}
		if got := spread(steps, 5); !slices.Equal(got, want) {
			t.Errorf("of %d steps %v", n, got)
		}
	}
}

// Of steps of which one is damaged, the page has the others, and names that one.
func TestExportOfADamagedStep(t *testing.T) {
	dir := written(t)
	at := filepath.Join(dir, "r", rundir.Traces)
	whole, err := os.ReadFile(trace.StepFile(at, 7))
	if err != nil {
		t.Fatal(err)
	}
	broken := trace.StepFile(at, 5)
	if err := os.WriteFile(broken, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	html, damaged, err := Export(dir, Options{})
	if err != nil || damaged == nil || !strings.HasPrefix(damaged.Error(), broken+": ") || strings.Contains(damaged.Error(), "\n") {
		t.Fatal(damaged, err)
	}
	if !strings.Contains(string(html), "<li>"+broken) || !strings.Contains(string(html), "Train step 7: 3 answers") {
		t.Errorf("the page is %s", html)
	}
	if _, _, err := Export(dir, Options{Step: 5}); err == nil || !strings.Contains(err.Error(), broken) {
		t.Error(err)
	}
	if _, _, err := Export(dir, Options{Task: "none"}); err == nil {
		t.Error("there is a page of a task that no step has")
	}
	if err := os.WriteFile(broken, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if html, damaged, err := Export(dir, Options{Task: "b"}); err != nil || damaged != nil || strings.Contains(string(html), "Task a") {
		t.Errorf("%v, %v: %s", err, damaged, html)
	}
}
