package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// settle makes a file look as if it had been written some time ago.
func settle(t *testing.T, path string, ago time.Duration) {
	t.Helper()
	when := time.Now().Add(-ago)
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
}

// reopened opens a file and says whether it was read.
func reopened(t *testing.T, path, cache string) (rows []map[string]any, read bool) {
	t.Helper()
	d, err := Open(path, Options{held: 100, Cache: cache, Progress: func(string, int64, int64) { read = true }})
	if err != nil {
		t.Fatal(err)
	}
	return all(t, d), read
}

func TestWhatALargeFileHasCostIsKept(t *testing.T) {
	parquet, err := os.ReadFile("testdata/many_groups.parquet")
	if err != nil {
		t.Fatal(err)
	}
	arrow, err := os.ReadFile("testdata/stream.arrow")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.jsonl": table("jsonl", 300, 1000), "a.csv": table("csv", 300, 1000), "a.json": `{"data": [{"a": "` + strings.Repeat("x", 100) + `"}]}`,
		"a.jsonl.gz": gz(t, table("jsonl", 300, 1000)), "a.parquet": string(parquet), "a.arrow": string(arrow),
	} {
		path, cache := filepath.Join(write(t, map[string]string{name: text}), name), filepath.Join(t.TempDir(), "cache")
		settle(t, path, time.Hour)
		first, read := reopened(t, path, cache)
		if !read {
			t.Errorf("%s: opened for the first time without being read", name)
		}
		second, read := reopened(t, path, cache)
		if read || !reflect.DeepEqual(first, second) {
			t.Errorf("%s: opened again: read %v, the same rows %v", name, read, reflect.DeepEqual(first, second))
		}
		settle(t, path, 2*time.Hour)
		if rows, read := reopened(t, path, cache); !read || !reflect.DeepEqual(first, rows) {
			t.Errorf("%s: changed by its time, and not read again", name)
		}
		kept, err := filepath.Glob(filepath.Join(cache, "*.rows"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("%s: kept %v, %v; want one file", name, kept, err)
		}
		if left, _ := filepath.Glob(filepath.Join(cache, "*.part")); len(left) > 0 {
			t.Errorf("%s: %v is left", name, left)
		}
	}
}

// What was kept and is damaged is made anew.
func TestADamagedIndexIsNotUsed(t *testing.T) {
	path, cache := filepath.Join(write(t, map[string]string{"a.csv": table("csv", 300, 1000)}), "a.csv"), t.TempDir()
	settle(t, path, time.Hour)
	want, _ := reopened(t, path, cache)
	kept, err := filepath.Glob(filepath.Join(cache, "*.rows"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	whole, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(string(whole))
	flipped[len(flipped)-indexTail-3]++
	for what, data := range map[string][]byte{"emptied": nil, "cut": whole[:len(whole)-1], "flipped": flipped, "headless": whole[1:]} {
		if err := os.WriteFile(kept[0], data, 0o644); err != nil {
			t.Fatal(err)
		}
		if rows, read := reopened(t, path, cache); !read || !reflect.DeepEqual(rows, want) {
			t.Errorf("%s: read again %v, the same rows %v", what, read, reflect.DeepEqual(rows, want))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keptRows opens a dataset whose rows are kept, and gives the file that keeps them, what it has, and the rows.
func keptRows(t *testing.T) (path, cache, kept string, whole []byte, want []map[string]any) {
	t.Helper()
	path, cache = filepath.Join(write(t, map[string]string{"a.csv": table("csv", 300, 1000)}), "a.csv"), t.TempDir()
	settle(t, path, time.Hour)
	want, _ = reopened(t, path, cache)
	found, err := filepath.Glob(filepath.Join(cache, "*.rows"))
	if err != nil || len(found) != 1 {
		t.Fatalf("kept %v, %v", found, err)
	}
	if whole, err = os.ReadFile(found[0]); err != nil {
		t.Fatal(err)
	}
	return path, cache, found[0], whole, want
}

// Kept rows of which a byte is another one than was written are read from the dataset again, with a line that says so.
func TestDamagedRowsAreReadAgain(t *testing.T) {
	path, cache, kept, whole, want := keptRows(t)
	f, err := os.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, err := readIndex(f)
	if err != nil || len(x.Marks) < 2 {
		t.Fatalf("%d blocks, %v; want some", len(x.Marks), err)
	}
	for at := int64(0); at < x.Records; at += x.Records/60 + 1 {
		damaged := slices.Clone(whole)
		damaged[at] ^= 1 << (at % 8)
		if err := os.WriteFile(kept, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		var notes []string
		d, err := Open(path, Options{held: 100, Cache: cache, Note: func(line string) { notes = append(notes, line) }})
		if err != nil {
			t.Fatal(err)
		}
		if got := all(t, d); !reflect.DeepEqual(got, want) || len(notes) != 1 || !strings.Contains(notes[0], kept) || strings.Contains(notes[0], "\n") {
			t.Fatalf("byte %d: the rows are right %v, and it was said %q", at, reflect.DeepEqual(got, want), notes)
		}
		if now, err := os.ReadFile(kept); err != nil || !bytes.Equal(now, whole) {
			t.Fatalf("byte %d: what is kept now is not what was, %v", at, err)
		}
	}
}

// Rows that cannot be read again are an error of one line, which blames the file of the rows.
func TestDamagedRowsOfADatasetThatHasChanged(t *testing.T) {
	path, cache, kept, whole, _ := keptRows(t)
	for _, c := range []struct {
		spoil func(t *testing.T)
		words string
	}{
		{func(t *testing.T) { settle(t, path, 2*time.Hour) }, "has changed"},
		{func(t *testing.T) { must(t, os.Remove(path)) }, "cannot be read"},
	} {
		settle(t, path, time.Hour)
		must(t, os.WriteFile(kept, whole, 0o644))
		d, err := Open(path, Options{held: 100, Cache: cache})
		must(t, err)
		must(t, os.Truncate(kept, 10))
		c.spoil(t)
		_, err = d.Row(d.Len() - 1)
		if err == nil || !strings.Contains(err.Error(), "file of its rows") || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want that the dataset %s", err, c.words)
		}
	}
}

func TestWhatIsNotKept(t *testing.T) {
	dir, cache := write(t, map[string]string{"young.csv": table("csv", 300, 1000), "small.csv": "a\n1\n", "bad.csv": table("csv", 300, 1000) + "a,b,c\n"}), t.TempDir()
	settle(t, filepath.Join(dir, "small.csv"), time.Hour)
	settle(t, filepath.Join(dir, "bad.csv"), time.Hour)
	for _, name := range []string{"young.csv", "small.csv"} {
		for range 2 {
			if _, read := reopened(t, filepath.Join(dir, name), cache); !read {
				t.Errorf("%s is not read", name)
			}
		}
	}
	if _, err := Open(filepath.Join(dir, "bad.csv"), Options{held: 100, Cache: cache}); err == nil {
		t.Error("no error")
	}
	left, err := os.ReadDir(cache)
	if err != nil || len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("%v is left, %v; want the lock", left, err)
	}
}

// A process that does not get the place to write reads all the same.
func TestTwoReadersOfALargeFile(t *testing.T) {
	path, cache := filepath.Join(write(t, map[string]string{"a.csv": table("csv", 300, 1000)}), "a.csv"), t.TempDir()
	settle(t, path, time.Hour)
	var inner []map[string]any
	d, err := Open(path, Options{held: 100, Cache: cache, Progress: func(_ string, done, total int64) {
		if done > total/2 && inner == nil {
			inner, _ = reopened(t, path, cache)
		}
	}})
	if err != nil || len(inner) != 300 || !reflect.DeepEqual(inner, all(t, d)) {
		t.Errorf("%d rows, %v", len(inner), err)
	}
}
