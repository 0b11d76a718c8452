package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// table returns n rows of about size bytes each, in a format.
func table(format string, n, size int) string {
	var b strings.Builder
	if format == "csv" {
		b.WriteString("i,text\n")
	}
	for i := range n {
		text := strings.Repeat(string(rune('a'+i%26)), i*7%size+1)
		if format == "csv" {
			fmt.Fprintf(&b, "%d,\"%s\n\"\n", i, text)
		} else {
			fmt.Fprintf(&b, "{\"i\": %d, \"text\": %q}\n\n", i, text)
		}
	}
	return b.String()
}

func TestSpilledRowsEqualRowsInMemory(t *testing.T) {
	const rows = 700 // several blocks
	dir := write(t,
		map[string]string{"a.jsonl": table("jsonl", rows, 2000), "a.csv": table("csv", rows, 2000),
			"a.jsonl.gz": gz(t, table("jsonl", rows, 2000))})
	for _, name := range []string{"a.jsonl", "a.csv", "a.jsonl.gz"} {
		path, scratch := filepath.Join(dir, name), filepath.Join(t.TempDir(), "buffer")
		held, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		spilled, err := Open(t.Context(), path, Options{held: 100, Scratch: scratch})
		if err != nil {
			t.Fatal(err)
		}
		if held.Len() != rows || spilled.Len() != rows {
			t.Fatalf("%s: %d and %d rows, want %d", name, held.Len(), spilled.Len(), rows)
		}
		for k := range rows {
			i := k * 331 % rows // out of order
			a, errA := held.Row(i)
			b, errB := spilled.Row(i)
			if errA != nil || errB != nil || !reflect.DeepEqual(a, b) || fmt.Sprint(a["i"]) != fmt.Sprint(i) {
				t.Fatalf("%s, row %d: %v (%v) and %v (%v)", name, i, a, errA, b, errB)
			}
			if line := fmt.Sprintf("%s:%d", path, 2*i+1+strings.Count(name, "csv")); held.Where(i) != line || spilled.Where(i) != line {
				t.Fatalf("row %d is at %s and %s, want %s", i, held.Where(i), spilled.Where(i), line)
			}
		}
		if left, _ := os.ReadDir(scratch); len(left) > 0 {
			t.Errorf("%s: %v stays in the directory of temporary files", name, left)
		}
	}
}

func TestParquetBeyondTheLimit(t *testing.T) {
	held, err := Open(t.Context(), "testdata/many_groups.parquet", Options{})
	if err != nil {
		t.Fatal(err)
	}
	spilled, err := Open(t.Context(), "testdata/many_groups.parquet", Options{held: 1, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if spilled.shards[0].(*spool).file == nil {
		t.Error("nothing went to a file")
	}
	if !reflect.DeepEqual(all(t, held), all(t, spilled)) {
		t.Error("rows differ")
	}
}

// heap returns the memory in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The memory of a dataset, while Open reads it and after, does not grow with its file.
// TRINITY_HEAVY uses files of 300 MB instead of 8.
func TestMemoryOfALargeFileIsBounded(t *testing.T) {
	rows, most := 8000, int64(3<<20)
	if trinitytest.EffortFor() == trinitytest.Heavy {
		rows = 300_000
	}
	for name, text := range map[string]func() string{
		"a.jsonl":    func() string { return table("jsonl", rows, 2000) },
		"a.csv":      func() string { return table("csv", rows, 2000) },
		"a.jsonl.gz": func() string { return gz(t, table("jsonl", rows, 2000)) },
		"a.json":     func() string { return "[" + strings.ReplaceAll(table("jsonl", rows, 2000), "}\n\n", "},\n\n") + "{}]" },
		"data.json": func() string {
			return `{"data": [` + strings.ReplaceAll(table("jsonl", rows, 2000), "}\n\n", "},\n\n") + "{}]}"
		},
	} {
		path := filepath.Join(write(t, map[string]string{name: text()}), name)
		before := heap()
		reads, peak := 0, before
		d, err := Open(t.Context(), path, Options{held: 1 << 20, Scratch: t.TempDir(), Progress: func(string, int64, int64) {
			if reads++; reads%32 == 0 {
				peak = max(peak, heap())
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			if _, err := d.Row(i * 7919 % rows); err != nil {
				t.Fatal(err)
			}
		}
		if held := heap() - before; held > most {
			t.Errorf("%s: %d bytes are held of %d rows, want at most %d", name, held, rows, most)
		}
		if peak -= before; peak > 2*most {
			t.Errorf("%s: %d bytes were held of %d rows while it was opened, want at most %d", name, peak, rows, 2*most)
		}
		runtime.KeepAlive(d)
	}
}

func TestProgressEndsAtTheTotal(t *testing.T) {
	dir := write(t,
		map[string]string{"a.jsonl": table("jsonl", 100, 100), "a.csv": table("csv", 100, 100), "a.jsonl.zst": zst(t, table("jsonl", 100, 100)),
			"a.json": `{"data": [{}, {}]}`})
	for _, path := range []string{filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "a.csv"), filepath.Join(dir, "a.jsonl.zst"),
		filepath.Join(dir, "a.json"), "testdata/many_groups.parquet"} {
		var last, all int64
		_, err := Open(t.Context(), path, Options{Progress: func(file string, done, total int64) {
			if file != path || done < last {
				t.Errorf("%s: %d after %d of %s", file, done, last, path)
			}
			last, all = done, total
		}})
		if err != nil || all == 0 || last != all {
			t.Errorf("%s: %d of %d, %v", path, last, all, err)
		}
	}
}

func TestNoRoomForRows(t *testing.T) {
	dir := write(t, map[string]string{"a.csv": table("csv", 10, 100), "file": ""})
	if _, err := Open(t.Context(), filepath.Join(dir, "a.csv"), Options{held: 1, Scratch: filepath.Join(dir, "file", "buffer")}); err == nil ||
		!strings.Contains(err.Error(), "go to a temporary file") {
		t.Errorf("got %v", err)
	}
}
