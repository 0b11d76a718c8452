package buffer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "experiences.jsonl")
	open := func() (f *File, cursor string) {
		f = NewFile(path)
		c, err := f.Resume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f, string(c)
	}
	put := func(f *File, step int64, n int, cursor string) {
		if err := f.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(step, n)}, Cursor: []byte(cursor)}); err != nil {
			t.Fatal(err)
		}
	}
	f, _ := open()
	put(f, 1, 3, `1`)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	// A killed explorer leaves half a line; the next one goes on from what counts.
	if err := os.WriteFile(path, append(whole, `{"id":`...), 0o644); err != nil {
		t.Fatal(err)
	}
	f, cursor := open()
	if cursor != "1" {
		t.Errorf("resumed at %s", cursor)
	}
	put(f, 2, 1, `2`)
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Put(t.Context(), trinity.Delivery{}); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("put after close: %v", err)
	}
	data, err := os.ReadFile(path)
	if lines := strings.Count(string(data), "\n"); err != nil || lines != 4 || !strings.HasPrefix(string(data), string(whole)) {
		t.Errorf("%d lines, %v, want 4", lines, err)
	}

	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFile(path).Resume(t.Context()); err == nil || !strings.Contains(err.Error(), path+" has 10 bytes") {
		t.Errorf("a short file: %v", err)
	}
}
