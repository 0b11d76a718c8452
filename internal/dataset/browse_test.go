package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// browsed reads n rows from a place on, as text or error.
func browsed(t *testing.T, path string, o Options, from Place, n int) (rows []string, next Place, end bool) {
	t.Helper()
	b, err := Browse(path, o)
	if err != nil {
		t.Fatal(err)
	}
	next, end, err = b.Rows(t.Context(), from, func(s Seen) bool {
		if s.Err != nil {
			rows = append(rows, fmt.Sprintf("%s: %v", filepath.Base(s.Where), s.Err))
		} else {
			rows = append(rows, string(s.Text))
		}
		return len(rows) < n
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, next, end
}

// Rows come page by page. A damaged one names its line, and the others are there.
func TestBrowseLines(t *testing.T) {
	long := `{"x":"` + strings.Repeat("y", browsedRow) + `"}`
	dir := write(t, map[string]string{"a.jsonl": "\xef\xbb\xbf{\"n\":1}\n\n{\"n\":\n3\n" + long + "\n{\"n\":6}\n{\"n\":7"})
	path := filepath.Join(dir, "a.jsonl")
	var all []string
	at, end := Place{}, false
	for !end {
		var rows []string
		rows, at, end = browsed(t, path, Options{}, at, 1)
		all = append(all, rows...)
	}
	want := []string{`{"n":1}`, "a.jsonl:3: not JSON: unexpected end of JSON input", `a.jsonl:4: "3" is no JSON object: every row is one`,
		"a.jsonl:5: " + errBrowsed.Error(), `{"n":6}`}
	if !slices.Equal(all, want) {
		t.Errorf("got %.400q, want %q", all, want)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("}\n"); err != nil {
		t.Fatal(err)
	}
	if rows, _, _ := browsed(t, path, Options{}, at, 9); !slices.Equal(rows, []string{`{"n":7}`}) {
		t.Errorf("after its end was written: %q", rows)
	}
}

// A file of 10 GB opens at any row, and no more of it is read than is asked for.
func TestBrowseReadsWhatIsWanted(t *testing.T) {
	path := filepath.Join(write(t, map[string]string{"big.jsonl": "{\"n\":1}\n{\"n\":2}\n"}), "big.jsonl")
	const size = 10 << 30
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("\n{\"n\":3}\n"), size); err != nil {
		t.Skipf("no room for a file with a hole: %v", err)
	}
	if rows, _, _ := browsed(t, path, Options{}, Place{}, 2); !slices.Equal(rows, []string{`{"n":1}`, `{"n":2}`}) {
		t.Errorf("the first rows are %q", rows)
	}
	if rows, _, end := browsed(t, path, Options{}, Place{Offset: size + 1, Line: 4}, 2); !slices.Equal(rows, []string{`{"n":3}`}) || !end {
		t.Errorf("the last row is %q", rows)
	}
}

// Files without offsets are read from their beginning, one after another, with what cannot be read of them.
func TestBrowseOtherForms(t *testing.T) {
	rows := "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n"
	dir := write(t, map[string]string{
		"gz/train-1.jsonl.gz": gz(t, rows), "zst.jsonl.zst": zst(t, rows),
		"json.json":    "[" + strings.ReplaceAll(strings.TrimSpace(rows), "\n", ",\n") + "]",
		"cut.jsonl.gz": gz(t, rows)[:20], "bad.json": "[{\"n\":1},\n{\"n\":2},\nx]", "queue.jsonl": rows + "null\n",
		"tasks/a/instruction.md": "do a", "tasks/b/instruction.md": "do b",
	})
	for _, name := range []string{"gz", "zst.jsonl.zst", "json.json"} {
		at := Place{}
		for n := 1; n <= 3; n++ {
			var got []string
			if got, at, _ = browsed(t, filepath.Join(dir, name), Options{}, at, 1); len(got) != 1 || got[0] != fmt.Sprintf(`{"n":%d}`, n) {
				t.Errorf("%s: row %d is %q", name, n, got)
			}
		}
		if got, _, end := browsed(t, filepath.Join(dir, name), Options{}, at, 1); len(got) > 0 || !end {
			t.Errorf("%s: after the last row: %q", name, got)
		}
	}
	for name, want := range map[string]string{"cut.jsonl.gz": "cut off", "bad.json": "bad.json:3: not JSON"} {
		got, at, _ := browsed(t, filepath.Join(dir, name), Options{}, Place{}, 9)
		if len(got) == 0 || !strings.Contains(got[len(got)-1], want) {
			t.Errorf("%s: %q", name, got)
		}
		if again, _, _ := browsed(t, filepath.Join(dir, name), Options{}, at, 9); len(again) > 0 {
			t.Errorf("%s: the error comes again: %q", name, again)
		}
	}
	if got, _, _ := browsed(t, filepath.Join(dir, "queue.jsonl"), Options{Queue: true}, Place{}, 9); len(got) != 3 {
		t.Errorf("the queue has %q", got)
	}
	got, _, _ := browsed(t, filepath.Join(dir, "tasks"), Options{TaskDir: true}, Place{Offset: 1}, 9)
	if len(got) != 1 || !strings.Contains(got[0], "do b") {
		t.Errorf("the second task is %q", got)
	}
}

// A database is read without files beside it.
func TestBrowseDatabase(t *testing.T) {
	url := sqliteFile(t, "PRAGMA journal_mode = WAL", "CREATE TABLE q (id INTEGER PRIMARY KEY, x TEXT)",
		"INSERT INTO q VALUES (2, 'b'), (1, 'a')")
	got, _, end := browsed(t, url, Options{Subset: "q"}, Place{Offset: 1}, 9)
	if !slices.Equal(got, []string{`{"id":2,"x":"b"}`}) || !end {
		t.Errorf("got %q", got)
	}
	entries, err := os.ReadDir(filepath.Dir(strings.TrimPrefix(url, "sqlite:///")))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the database is %v, %v", entries, err)
	}
	if got, _, _ := browsed(t, url, Options{Subset: "none"}, Place{}, 9); len(got) != 1 || !strings.Contains(got[0], "no such table") {
		t.Errorf("a table that is not there: %q", got)
	}
}
