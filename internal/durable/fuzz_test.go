package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// recordsOf reads a log up to its end or its first damaged record.
func recordsOf(dir string) (records []string, err error) {
	r := ReadLog(dir, 0)
	for {
		record, err := r.Next()
		if err != nil {
			return records, errors.Join(err, r.Close())
		}
		records = append(records, string(record))
	}
}

// FuzzLog damages a segment of a log. Reader, index and writer agree on its records, and the writer
// keeps all of them.
func FuzzLog(f *testing.F) {
	seed := filepath.Join(f.TempDir(), "seed")
	l, err := OpenLog(seed)
	if err != nil {
		f.Fatal(err)
	}
	for _, record := range []string{"one", "", "three"} {
		if _, err := l.Append([]byte(record)); err != nil {
			f.Fatal(err)
		}
	}
	whole, err := os.ReadFile(segmentPath(seed, 0))
	if err := errors.Join(err, l.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append([]byte("x"), whole[1:]...))
	f.Add(append(slices.Clone(whole), make([]byte, 20)...))
	f.Fuzz(func(t *testing.T, segment []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 0), segment, 0o600); err != nil {
			t.Fatal(err)
		}
		records, err := recordsOf(dir)
		index := IndexLog(dir)
		defer index.Close()
		for i, want := range records {
			if got, err := index.Read(int64(i)); err != nil || string(got) != want {
				t.Fatalf("record %d: the index has %q, %v; the reader %q", i, got, err, want)
			}
		}
		if _, err := index.Read(int64(len(records))); err == nil {
			t.Fatal("the index has one record more than the reader")
		}
		l, openErr := OpenLog(dir)
		if (openErr == nil) != errors.Is(err, io.EOF) {
			t.Fatalf("opened: %v, read: %v", openErr, err)
		}
		if openErr != nil {
			return
		}
		if _, err := l.Append([]byte("new")); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if again, err := recordsOf(dir); !errors.Is(err, io.EOF) || !slices.Equal(again, append(records, "new")) {
			t.Fatalf("%q, %v; want %q and one more", again, err, records)
		}
	})
}
