package weights

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
)

// Tidy keeps the versions that a checkpoint, an explorer in sync_style fixed or a download needs.
// Clear keeps those that a checkpoint needs and does not contain.
func TestShelf(t *testing.T) {
	for _, c := range []struct {
		pinned []int64
		floor  int64
		want   string
		end    string // after Clear; checkpoints contain all versions except 4
	}{
		{[]int64{0}, math.MaxInt64, "0 5 6", ""},
		{[]int64{3}, math.MaxInt64, "0 1 2 3 5 6", "0 1 2"}, // the checkpoint before may need 0, 1 or 2
		{[]int64{2, 4}, math.MaxInt64, "2 4 5 6", "4"},
		{[]int64{2, 4}, 3, "2 3 4 5 6", "4"},
		{[]int64{2, 4}, -1, "0 1 2 3 4 5 6", "4"},
	} {
		s := Shelf{Dir: t.TempDir()}
		for v := range int64(7) {
			if err := errors.Join(os.Mkdir(s.path(v), 0o755), durable.Seal(s.path(v))); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.read(pin{version: 6}); err != nil {
			t.Fatal(err)
		}
		s.pinned = nil
		for _, v := range c.pinned {
			s.pinned = append(s.pinned, pin{version: v, again: v != 4})
		}
		if err := s.Tidy(c.floor); err != nil {
			t.Fatal(err)
		}
		if got := s.onDisk(t); got != c.want || len(s.versions) != len(strings.Fields(got)) {
			t.Errorf("pinned %v, floor %d: left %s, want %s", c.pinned, c.floor, got, c.want)
		}
		if err := s.Clear(); err != nil {
			t.Fatal(err)
		}
		if got := s.onDisk(t); got != c.end {
			t.Errorf("pinned %v: left %q at the end, want %q", c.pinned, got, c.end)
		}
		s = Shelf{Dir: s.Dir}
		if err := s.read(pin{version: 2}); err != nil || slices.ContainsFunc(s.versions, func(m manifest) bool { return m.Number > 2 }) {
			t.Errorf("opened at version 2: %v, %v", s.versions, err)
		}
	}
}

// onDisk returns the versions in the directory.
func (s *Shelf) onDisk(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Dir, versionPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(filepath.Base(name), versionPrefix)
	}
	return strings.Join(names, " ")
}

// A shelf refuses a version that was damaged after its publication. It removes newer versions
// without reading them.
func TestDamagedVersion(t *testing.T) {
	s := Shelf{Dir: t.TempDir()}
	for v := range int64(2) {
		file := filepath.Join(s.path(v), "model.safetensors")
		write := func(text string) error { return os.WriteFile(file, []byte(text), 0o644) }
		if err := errors.Join(os.Mkdir(s.path(v), 0o755), write("weights"), durable.Seal(s.path(v)), write("Weights")); err != nil {
			t.Fatal(err)
		}
		err := (&Shelf{Dir: s.Dir}).read(pin{})
		if err == nil || !strings.Contains(err.Error(), filepath.Join(s.path(0), "model.safetensors")+" is damaged") {
			t.Errorf("%v", err)
		}
	}
}
