package buffer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/experience/archive"
)

// What an explorer has not put is not in the file for good, in any form; its cursor is that of what is.
func TestFileInEveryForm(t *testing.T) {
	for _, form := range archive.Forms {
		path := filepath.Join(t.TempDir(), "kept"+form)
		f := NewFile(path)
		if _, err := f.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		for step := range int64(3) {
			if err := f.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(step+1, 2)}, Cursor: fmt.Appendf(nil, "%d", step)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := archive.New(path).Write([]trinity.Group{group(4, 5)}); err != nil { // and is killed
			t.Fatal(err)
		}
		f = NewFile(path)
		if cursor, err := f.Resume(t.Context()); err != nil || string(cursor) != "2" {
			t.Errorf("%s: goes on at %s, %v", form, cursor, err)
		}
		if err := errors.Join(f.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(4, 1)}}), f.Close()); err != nil {
			t.Fatal(err)
		}
		if d, err := dataset.Open(path, dataset.Options{}); err != nil || d.Len() != 7 {
			t.Errorf("%s: %v, %v; want 7 rows", form, d, err)
		}
	}
}

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
