package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// newQueue returns a queue of a file that is not there yet.
func newQueue(t testing.TB) *Queue {
	return NewQueue(filepath.Join(t.TempDir(), "tasks.jsonl"), time.Hour, func(string) {})
}

// appendTo appends text to the queue's file.
func appendTo(t testing.TB, q *Queue, text string) {
	t.Helper()
	f, err := os.OpenFile(q.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// extend reads what was appended, and returns the number of rows.
func extend(t testing.TB, q *Queue) int {
	t.Helper()
	if err := q.Extend(); err != nil {
		t.Fatal(err)
	}
	return q.Len()
}

func TestAQueueGrows(t *testing.T) {
	q := newQueue(t)
	for i, k := range []struct {
		text  string
		rows  int
		ended bool
	}{
		{"", 0, false},
		{"{\"n\": 0}\n{\"n\":", 1, false}, // half a row
		{" 1}", 1, false},
		{"\n", 2, false},
		{"\n \r\n  {\"n\": 2} \r\n", 3, false}, // blank lines and space
		{"{\"n\": 3}\nnul", 4, false},
		{"l\n", 4, true},
	} {
		if k.text != "" {
			appendTo(t, q, k.text)
		}
		if n := extend(t, q); n != k.rows || q.Ended() != k.ended {
			t.Fatalf("%d: %d rows, ended %t; want %d, %t", i, n, q.Ended(), k.rows, k.ended)
		}
	}
	for i, line := range []int{1, 2, 5, 6} {
		row, err := q.Row(i)
		if err != nil || row["n"] != int64(i) {
			t.Errorf("row %d is %v, %v", i, row, err)
		}
		if want := fmt.Sprintf("%s:%d", q.path, line); q.Where(i) != want {
			t.Errorf("row %d is at %s, want %s", i, q.Where(i), want)
		}
	}
	if _, err := q.Row(4); err == nil {
		t.Error("there is a row after the last")
	}
}

func TestBadRowsOfAQueue(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n\n{\"a\": }\n":    "tasks.jsonl:3: not JSON",
		"{}\n[1]\n":            "tasks.jsonl:2: \"[1]\" is no JSON object",
		"{}\nnull\n{}\n":       "tasks.jsonl:3: follows the line null",
		"{}\n\xef\xbb\xbf{}\n": "tasks.jsonl:2: not JSON",
	} {
		q := newQueue(t)
		appendTo(t, q, text)
		err := q.Extend()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if again := q.Extend(); again == nil || again.Error() != err.Error() {
			t.Errorf("%q: then %v", text, again)
		}
		if q.Len() != 1 || q.Ended() {
			t.Errorf("%q: %d rows, ended %t", text, q.Len(), q.Ended())
		}
		if err := os.WriteFile(q.path, []byte("{}\n{\"mended\": true}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if n := extend(t, q); n != 2 {
			t.Errorf("%q: %d rows once it is mended", text, n)
		}
	}
}

func TestAQueueThatBecameShorter(t *testing.T) {
	q := newQueue(t)
	appendTo(t, q, "{}\n{\"a\": 1}\n")
	extend(t, q)
	for _, change := range []func() error{
		func() error { return os.WriteFile(q.path, []byte("{}\n"), 0o644) },
		func() error { return os.Remove(q.path) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := q.Extend(); err == nil || !strings.Contains(err.Error(), q.path) {
			t.Errorf("no error, but %v", err)
		}
		if _, err := q.Row(1); err == nil {
			t.Error("a row that is gone was read")
		}
	}
}

// A file that takes the place of the one that was read is noticed, whether it is renamed to it or
// written over it. One that only has more rows is as good as it.
func TestAQueueThatWasReplaced(t *testing.T) {
	const was = "\xef\xbb\xbf\n{\"a\": 1}\n  {\"a\": 2} \r\n"
	const want = "tasks.jsonl:3: the row is no longer what it was when it came: append rows"
	for text, same := range map[string]bool{
		was + "{\"a\": 3}\n": true,
		strings.ReplaceAll(was, "a", "b") + "{\"b\": 3}\n": false,
		"{\"a\": \"a long row\"}\n" + was:                  false,
	} {
		for _, write := range []func(path string) error{
			func(path string) error { return os.WriteFile(path, []byte(text), 0o644) },
			func(path string) error {
				return errors.Join(os.WriteFile(path+".new", []byte(text), 0o644), os.Rename(path+".new", path))
			},
		} {
			q := newQueue(t)
			appendTo(t, q, was)
			extend(t, q)
			if err := write(q.path); err != nil {
				t.Fatal(err)
			}
			err := q.Extend()
			if same && (err != nil || q.Len() != 3) || !same && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%q: %d rows, %v; want %s", text, q.Len(), err, want)
			}
		}
	}
}

// Somebody who forgot the last line feed reads so.
func TestAwaitALineFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		appendTo(t, q, "{}\nnull")
		const want = "it has 1 rows and a last line without its line feed, and the step wants row 2"
		if err := q.Await(t.Context(), 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		appendTo(t, q, "\n")
		if err := q.Await(t.Context(), 2); err != nil || !q.Ended() {
			t.Errorf("with the line feed: ended %t, %v", q.Ended(), err)
		}
	})
}

// The digest of the first rows depends on these rows alone.
func TestDigestsOfAQueue(t *testing.T) {
	whole, grown, other := newQueue(t), newQueue(t), newQueue(t)
	appendTo(t, whole, "{\"a\": 1}\n{\"b\": 2}\n{\"c\": 3}\n")
	appendTo(t, other, "{\"a\": 1}\n{\"b\": 9}\n{\"c\": 3}\n")
	for _, line := range []string{"{\"a\": 1}\r\n", "{\"b\": 2}\n", "\n{\"c\": 3}\n"} {
		appendTo(t, grown, line)
		extend(t, grown)
	}
	extend(t, whole)
	extend(t, other)
	for n := range 4 {
		if whole.Digest(n) != grown.Digest(n) {
			t.Errorf("the first %d rows have another digest if they come one by one", n)
		}
		if same := whole.Digest(n) == other.Digest(n); same != (n < 2) {
			t.Errorf("the first %d rows of another file: the same digest %t", n, same)
		}
	}
}

func TestAwaitARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		var notes []string
		q.note = func(line string) { notes = append(notes, line) }
		go func() {
			for range 3 {
				time.Sleep(50 * time.Minute) // less than the timeout, which is for each row
				appendTo(t, q, "{}\n")
			}
		}()
		if err := q.Await(t.Context(), 3); err != nil || q.Len() != 3 {
			t.Errorf("%d rows, %v", q.Len(), err)
		}
		if len(notes) != 1 || !strings.Contains(notes[0], "has 0 rows, and the step wants row 3") {
			t.Errorf("people read %q", notes)
		}
		err := q.Await(t.Context(), 5)
		const want = "no row came within 1h00m (max_read_timeout): it has 3 rows, and the step wants row 5"
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), q.path) {
			t.Errorf("%v, want %s", err, want)
		}
		ctx, stop := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		time.AfterFunc(time.Minute, func() { stop(stopped) })
		if err := q.Await(ctx, 5); !errors.Is(err, stopped) {
			t.Errorf("stopped: %v", err)
		}
		appendTo(t, q, "{}\nnull\n")
		if err := q.Await(t.Context(), 5); err != nil || !q.Ended() || q.Len() != 4 {
			t.Errorf("at its end: %d rows, ended %t, %v", q.Len(), q.Ended(), err)
		}
	})
}

// A file that is written in pieces gives the rows of the file that is there as a whole.
func FuzzQueue(f *testing.F) {
	f.Add("{\"a\": 1}\n\n{\"b\": 2}\nnull\n", uint64(3))
	f.Add("\xef\xbb\xbf{}\r\n{}\n \n{\"a\":", uint64(1))
	f.Add("null\n{}\n", uint64(7))
	f.Add("{}\n\xef\xbb\xbf{}\nnull", uint64(12))
	f.Fuzz(func(t *testing.T, text string, cuts uint64) {
		whole, grown := newQueue(t), newQueue(t)
		appendTo(t, whole, text)
		want := whole.Extend()
		var got error
		for rest := text; rest != "" && got == nil; cuts = cuts>>3 | cuts<<61 {
			n := min(len(rest), int(cuts&7)*int(cuts&7)+1)
			appendTo(t, grown, rest[:n])
			rest = rest[n:]
			got = grown.Extend()
		}
		if fmt.Sprint(want) != strings.ReplaceAll(fmt.Sprint(got), grown.path, whole.path) {
			t.Fatalf("%q: %v in pieces, %v as a whole", text, got, want)
		}
		if whole.Len() != grown.Len() || whole.Ended() != grown.Ended() || whole.Digest(whole.Len()) != grown.Digest(grown.Len()) {
			t.Fatalf("%q: %d rows, ended %t in pieces; %d, %t as a whole", text, grown.Len(), grown.Ended(), whole.Len(), whole.Ended())
		}
		for i := range whole.Len() {
			a, err := whole.Row(i)
			if err != nil {
				t.Fatal(err)
			}
			b, err := grown.Row(i)
			if err != nil || fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("row %d: %v, %v; want %v", i, b, err, a)
			}
			if whole.Where(i) != strings.ReplaceAll(grown.Where(i), grown.path, whole.path) {
				t.Fatalf("row %d is at %s and %s", i, whole.Where(i), grown.Where(i))
			}
		}
	})
}
