package buffer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// browsedLog lists record, index, and whether an experience can be read.
func browsedLog(t *testing.T, dir string, record int64, index, n int) (seen []string, end bool) {
	t.Helper()
	end, err := Browse(t.Context(), dir, record, index, func(s Seen) bool {
		seen = append(seen, fmt.Sprintf("%d.%d %v %v", s.Record, s.Index, s.Err == nil, s.Last))
		return len(seen) < n
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen, end
}

// The log of a run is read from any experience on while the run appends. A damaged delivery does not hide
// those after it.
func TestBrowseLog(t *testing.T) {
	dir := t.TempDir()
	if seen, end := browsedLog(t, dir, 0, 0, 9); len(seen) > 0 || !end {
		t.Errorf("an empty directory has %q", seen)
	}
	log, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	q := NewQueue(10, 1<<20, log)
	sink := q.Sink("explorer")
	var before int64
	for n := range 3 {
		put(t, sink, int64(2*n), 2)
		if n == 0 {
			info, err := os.Stat(logFile(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			before = info.Size()
		}
	}
	want := []string{"0.0 true false", "0.1 true true", "1.0 true false", "1.1 true true", "2.0 true false", "2.1 true true"}
	if seen, end := browsedLog(t, dir, 0, 0, 9); !slices.Equal(seen, want) || !end {
		t.Errorf("it has %q", seen)
	}
	if seen, end := browsedLog(t, dir, 1, 1, 2); !slices.Equal(seen, want[3:5]) || end {
		t.Errorf("from the middle on: %q", seen)
	}
	put(t, sink, 9, 1)
	if seen, _ := browsedLog(t, dir, 3, 0, 9); !slices.Equal(seen, []string{"3.0 true true"}) {
		t.Errorf("what came meanwhile: %q", seen)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(logFile(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	data[before+30] ^= 1
	if err := os.WriteFile(logFile(t, dir), data, 0o644); err != nil {
		t.Fatal(err)
	}
	want = slices.Concat(want[:2], []string{"1.0 false true"}, want[4:], []string{"3.0 true true"})
	if seen, end := browsedLog(t, dir, 0, 0, 9); !slices.Equal(seen, want) || !end {
		t.Errorf("with a damaged delivery it has %q", seen)
	}
}

func logFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}
