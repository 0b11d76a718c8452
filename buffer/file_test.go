package buffer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/experience/archive"
)

var anExplorer = archive.Run{Name: "run/experiences-word", Dir: "run", Say: func(string) {}}

// What an explorer has not put is not in the file for good, in any form; its cursor is that of what is.
func TestFileInEveryForm(t *testing.T) {
	for _, form := range archive.Forms {
		path := filepath.Join(t.TempDir(), "kept"+form)
		f := NewFile(path, anExplorer)
		if _, err := f.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		for step := range int64(3) {
			if err := f.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(step+1, 2)}, Cursor: fmt.Appendf(nil, "%d", step)}); err != nil {
				t.Fatal(err)
			}
		}
		killed := archive.New(path, anExplorer)
		if err := errors.Join(f.Close(), killed.Write(t.Context(), 4, []trinity.Group{group(4, 5)}), killed.Close()); err != nil {
			t.Fatal(err)
		}
		f = NewFile(path, anExplorer)
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

// A step that a killed explorer had written, and not put, gives way though nothing is left of it when it is explored again. What is put after a step for an
// evaluation's sake takes nothing from the step.
func TestFileOfAStepThatLeavesNothing(t *testing.T) {
	for _, form := range archive.Forms {
		path := filepath.Join(t.TempDir(), "kept"+form)
		for _, c := range []struct {
			puts   [][]trinity.Group // of an explorer that goes on
			killed int64             // the step that it had written, and not put
			old    bool              // its state does not say which steps are put, as that of an earlier version
			want   int
		}{
			{[][]trinity.Group{{group(1, 2)}}, 2, false, 4},
			{[][]trinity.Group{nil, {group(3, 2)}}, 4, false, 6},
			{[][]trinity.Group{nil, nil}, 0, true, 4},
			{[][]trinity.Group{nil, {group(5, 1)}}, 0, false, 5},
		} {
			f := NewFile(path, anExplorer)
			if _, err := f.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, groups := range c.puts {
				if err := f.Put(t.Context(), trinity.Delivery{Groups: groups, Cursor: []byte("1")}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if c.old {
				state, err := os.ReadFile(path + archive.StateFile)
				if err := errors.Join(err, os.WriteFile(path+archive.StateFile, regexp.MustCompile(`"next":\d+,`).ReplaceAll(state, nil), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if c.killed > 0 {
				killed := archive.New(path, anExplorer)
				if err := errors.Join(killed.Write(t.Context(), c.killed, []trinity.Group{group(c.killed, 2)}), killed.Close()); err != nil {
					t.Fatal(err)
				}
			}
			if d, err := dataset.Open(path, dataset.Options{}); err != nil || d.Len() != c.want {
				t.Errorf("%s: %v, %v; want %d rows", form, d, err, c.want)
			}
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "experiences.jsonl")
	open := func() (f *File, cursor string) {
		f = NewFile(path, anExplorer)
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
	if err := errors.Join(f.Close(), os.WriteFile(path, append(whole, `{"id":`...), 0o644)); err != nil {
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

}

// A file that was damaged keeps no explorer from going on: a line says which steps are missing, though the explorer is killed before it has put the next one.
func TestFileThatWasDamaged(t *testing.T) {
	for _, form := range archive.Forms {
		path, said := filepath.Join(t.TempDir(), "kept"+form), ""
		run := anExplorer
		run.Say = func(line string) { said += line }
		explore := func(from string, steps ...int64) {
			t.Helper()
			f := NewFile(path, run)
			if cursor, err := f.Resume(t.Context()); err != nil || string(cursor) != from {
				t.Fatalf("%s: goes on at %q, %v; want %q", form, cursor, err, from)
			}
			for _, step := range steps {
				if err := f.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(step, 1)}, Cursor: fmt.Append(nil, step)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		explore("", 1, 2, 3)
		last := path
		if form == ".parquet" {
			last = filepath.Join(path, "step-000000003-0.parquet")
		}
		if info, err := os.Stat(last); err != nil || os.Truncate(last, info.Size()-1) != nil || form == ".parquet" && os.Remove(last) != nil {
			t.Fatal(err)
		}
		killed := archive.New(path, run)
		if err := errors.Join(killed.Write(t.Context(), 4, []trinity.Group{group(4, 1)}), killed.Close()); err != nil {
			t.Fatal(err)
		}
		explore("3", 4)
		if want := "3 there is nothing, or not all; "; !strings.HasPrefix(said, path+" was damaged") || !strings.Contains(said, want) || strings.Count(said, "damaged") != 1 {
			t.Errorf("%s: said %q, want %q", form, said, want)
		}
	}
}

// Explorers of two runs that are given one path: each goes on from its own cursor, with its own rollouts.
func TestTwoExplorersAtOnePath(t *testing.T) {
	for _, form := range archive.Forms {
		path := filepath.Join(t.TempDir(), "kept"+form)
		explore := func(name, from string, steps ...int64) {
			t.Helper()
			f := NewFile(path, archive.Run{Name: name, Dir: name, Say: func(string) {}})
			if cursor, err := f.Resume(t.Context()); err != nil || string(cursor) != from {
				t.Fatalf("%s: %s goes on at %q, %v; want %q", form, name, cursor, err, from)
			}
			if _, err := NewFile(path, anExplorer).Resume(t.Context()); err == nil || !strings.Contains(err.Error(), "is being written by run "+name+" in "+name) {
				t.Errorf("%s: beside %s: %v", form, name, err)
			}
			for _, step := range steps {
				if err := f.Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group(step, 1)}, Cursor: fmt.Append(nil, step)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		explore("one", "", 1, 2, 3)
		explore("two", "", 1, 2, 3, 4, 5)
		explore("one", "3", 4)
		explore("two", "5", 6)
		explore("one", "4")
		for name, want := range map[string]int{path: 4, path + ".2": 6} {
			look := filepath.Join(t.TempDir(), "look"+form)
			if err := os.Rename(name, look); err != nil {
				t.Fatal(err)
			}
			if d, err := dataset.Open(look, dataset.Options{}); err != nil || d.Len() != want {
				t.Errorf("%s: %v, %v; want %d rows", filepath.Base(name), d, err, want)
			}
		}
	}
}

// Who cannot begin holds nothing: when its record is put right, it goes on.
func TestFileOfABrokenRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept.jsonl")
	if err := os.WriteFile(path+".owner", []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := NewFile(path, anExplorer).Resume(t.Context()); err == nil || !strings.Contains(err.Error(), path+".owner: ") {
			t.Errorf("a broken record: %v", err)
		}
	}
}
