package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

func openSink(t *testing.T, path, cursor string) *Sink {
	t.Helper()
	s := NewSink(path, "")
	if _, got, err := s.Resume(t.Context()); err != nil || string(got) != cursor {
		t.Fatalf("%s: resumed at %q, %v; want %q", path, got, err, cursor)
	}
	return s
}

func put(t *testing.T, s *Sink, cursor int64, groups []trinity.Group) {
	t.Helper()
	if err := s.Put(t.Context(), trinity.Delivery{Groups: groups, Cursor: fmt.Append(nil, cursor)}); err != nil {
		t.Fatal(err)
	}
}

// A step that a killed explorer wrote without its cursor is removed, even if the explorer finds
// nothing when it explores the step again. A delivery without experiences, as after an evaluation,
// removes nothing.
func TestUndeliveredStepIsRemoved(t *testing.T) {
	for _, form := range experience.Forms {
		path := filepath.Join(t.TempDir(), "kept"+form)
		s := openSink(t, path, "")
		put(t, s, 1, ofStep(1, 2))
		put(t, s, 2, ofStep(2, 1))
		put(t, s, 2, nil)
		write(t, path, ofStep(3, 5)) // killed before the cursor
		s = openSink(t, path, "2")
		put(t, s, 3, nil)
		put(t, s, 4, ofStep(4, 1))
		if err := errors.Join(s.Close(t.Context()), s.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		openSink(t, path, "4")
		if got, want := written(t, path), "1.0 1.1 2.0 4.0"; got != want {
			t.Errorf("%s has %s, want %s", form, got, want)
		}
	}
}

// Files that are no steps stay, whatever their names begin with.
func TestForeignFilesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.parquet")
	write(t, path, ofStep(1, 1))
	for _, name := range []string{"step-000000002.parquet.bak", "step-2.parquet", "step-000000002.jsonl", "notes"} {
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	openSink(t, path, "")
	if left, err := filepath.Glob(filepath.Join(path, "*")); err != nil || len(left) != 4 {
		t.Errorf("%v, %v; want all files but step 1", left, err)
	}
}

func TestClosedSinkHasEnded(t *testing.T) {
	s := NewSink(filepath.Join(t.TempDir(), "kept.jsonl"), "")
	if err := s.Put(t.Context(), trinity.Delivery{}); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("before Resume: %v", err)
	}
}

func TestBrokenState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.jsonl")
	put(t, openSink(t, path, ""), 1, ofStep(1, 1))
	if err := os.WriteFile(filepath.Join(path, stateFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := NewSink(path, "").Resume(t.Context()); err == nil || !strings.Contains(err.Error(), filepath.Join(path, stateFile)+": ") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if got := written(t, path); got != "1.0" {
		t.Errorf("it has %s, want 1.0", got)
	}
}
