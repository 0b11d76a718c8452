package studio

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The list follows the directory, also where nothing changed the last time.
func TestFinderFollowsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	var f finder
	check := func(want ...string) {
		t.Helper()
		old := time.Now().Add(-time.Hour)
		for _, d := range []string{dir, filepath.Join(dir, "p")} { // settled, and each time as it was
			if f.dirs[d] == nil {
				if err := os.Chtimes(d, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
		f.again = time.Time{}
		ids, damaged := f.find(dir)
		if slices.Sort(ids); !slices.Equal(ids, want) || damaged != nil {
			t.Errorf("runs %q, want %q; %q", ids, want, damaged)
		}
	}
	put(t, dir, "p/a/monitor/metrics.jsonl", "")
	put(t, dir, "p/a/global_step_1/monitor/x", "")
	put(t, dir, "p/.hidden/monitor/x", "")
	check("p/a")
	if !f.dirs[filepath.Join(dir, "p")].isSure || f.dirs[filepath.Join(dir, "p", "a")].isSure {
		t.Error("it trusts the time of a directory that may still change, or no time")
	}
	check("p/a")
	put(t, dir, "p/b/trace/x", "")
	put(t, dir, "p/a/stage/monitor/x", "")
	check("p/a", "p/a/stage", "p/b")
	if err := os.RemoveAll(filepath.Join(dir, "p", "a")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "monitor/x", "")
	check("p/b", whole)
	f.again = time.Now().Add(time.Hour)
	put(t, dir, "q/monitor/x", "")
	if ids, _ := f.find(dir); len(ids) != 2 {
		t.Errorf("it looks again at once: %q", ids)
	}
}

// Nothing is kept of a run that is gone.
func TestRunsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	s := &runs{dir: dir, files: newCache(nil)}
	put(t, dir, "a/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	put(t, dir, "b/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	list := func() (n int) {
		t.Helper()
		s.finder.again = time.Time{}
		if _, err := s.answer(httptest.NewRequest(http.MethodGet, "/", nil)); err != nil {
			t.Fatal(err)
		}
		s.known.Range(func(any, any) bool { n++; return true })
		return n
	}
	if n := list(); n != 2 {
		t.Errorf("%d runs are known", n)
	}
	if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if n := list(); n != 1 {
		t.Errorf("%d runs are known, and there is one", n)
	}
}
