package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func appendAll(t *testing.T, l *Log, records ...string) {
	t.Helper()
	for _, r := range records {
		if _, err := l.Append([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
}

// readAll reads all records of a log.
func readAll(t *testing.T, r *LogReader) []string {
	t.Helper()
	var out []string
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(record))
	}
}

func openLog(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	follower := ReadLog(dir, 0)
	if got := readAll(t, follower); got != nil {
		t.Errorf("read %q of what is not there yet", got)
	}
	l := openLog(t, dir)
	appendAll(t, l, "a", "", "ccc")
	if got := readAll(t, follower); fmt.Sprint(got) != "[a  ccc]" {
		t.Errorf("read %q", got)
	}
	appendAll(t, l, "d")
	if got := readAll(t, follower); fmt.Sprint(got) != "[d]" || follower.Number() != 4 || l.Next() != 4 {
		t.Errorf("read %q, next %d and %d; want d and 4", got, follower.Number(), l.Next())
	}
	if got := readAll(t, ReadLog(dir, 2)); fmt.Sprint(got) != "[ccc d]" {
		t.Errorf("read %q from record 2", got)
	}
	again := openLog(t, dir)
	appendAll(t, again, "e")
	if got := readAll(t, follower); fmt.Sprint(got) != "[e]" {
		t.Errorf("read %q after the log was opened anew", got)
	}
}

func TestLogSegments(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	big := strings.Repeat("x", segmentBytes)
	appendAll(t, l, "a", big, "c", "d", big, "f")
	if all, err := segments(dir); err != nil || fmt.Sprint(all) != "[0 2 5]" {
		t.Fatalf("segments %v, %v", all, err)
	}
	if got := readAll(t, ReadLog(dir, 0)); len(got) != 6 || got[5] != "f" {
		t.Errorf("read %d records", len(got))
	}
	if err := l.Trim(4); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, ReadLog(dir, 3)); len(got) != 3 || got[0] != "d" {
		t.Errorf("read %d records after a trim, want those from 3 on", len(got))
	}
	if _, err := ReadLog(dir, 1).Next(); err == nil || !strings.Contains(err.Error(), "record 1 has been removed") {
		t.Errorf("reading what was removed: %v", err)
	}
	appendAll(t, openLog(t, dir), "g")
	if got := readAll(t, ReadLog(dir, 5)); fmt.Sprint(got) != "[f g]" {
		t.Errorf("read %q", got)
	}
}

// OpenLog truncates whatever a kill leaves of the last record; the next record takes its number.
func TestLogIsWholeAfterKill(t *testing.T) {
	const last = frameBytes + len("abc")
	for cut := 1; cut <= last; cut++ {
		for name, tail := range map[string][]byte{"cut off": nil, "not written": make([]byte, cut)} {
			dir := t.TempDir()
			appendAll(t, openLog(t, dir), "first", "abc")
			path := segmentPath(dir, 0)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(data[:len(data)-cut], tail...), 0o644); err != nil {
				t.Fatal(err)
			}
			appendAll(t, openLog(t, dir), "new")
			if got := readAll(t, ReadLog(dir, 0)); fmt.Sprint(got) != "[first new]" {
				t.Errorf("%d bytes %s: read %q", cut, name, got)
			}
		}
	}
}

// A segment of which a kill or a power cut left only zeros counts as empty.
func TestSegmentWithoutItsBeginning(t *testing.T) {
	for size := range frameBytes {
		dir := t.TempDir()
		appendAll(t, openLog(t, dir), "first")
		if err := os.WriteFile(segmentPath(dir, 1), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
		appendAll(t, openLog(t, dir), "new")
		if got := readAll(t, ReadLog(dir, 0)); fmt.Sprint(got) != "[first new]" {
			t.Errorf("%d bytes: read %q", size, got)
		}
	}
}

// A truncated or missing segment in the middle is an error and not the end of the log.
func TestMissingSegments(t *testing.T) {
	dir := t.TempDir()
	for first := range 3 {
		l := &Log{dir: dir, next: int64(2 * first)}
		if err := l.begin(); err != nil {
			t.Fatal(err)
		}
		appendAll(t, l, "a", "b")
	}
	path := segmentPath(dir, 2)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantMissing := func(what, record string) {
		t.Helper()
		r := ReadLog(dir, 0)
		defer r.Close()
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !strings.Contains(err.Error(), record+" is missing, and the log continues with record 4") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for size := range whole {
		if err := os.WriteFile(path, whole[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		wantMissing(fmt.Sprint(size, " bytes"), "record "+map[bool]string{false: "2", true: "3"}[size >= len(whole)-frameBytes-1])
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantMissing("removed", "record 2")
}

// If a new segment cannot be created, the log is unchanged, and the next record creates it.
func TestSegmentThatCannotBeCreated(t *testing.T) {
	for what, place := range map[string]func(path string) string{"made": func(path string) string { return beside(TempPrefix, path) },
		"named": func(path string) string { return path }} {
		dir := t.TempDir()
		l := openLog(t, dir)
		appendAll(t, l, "a")
		l.size = segmentBytes // it is full
		reader := ReadLog(dir, 0)
		defer reader.Close()
		in := place(segmentPath(dir, 1))
		if err := os.Mkdir(in, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append([]byte("b")); err == nil || l.Next() != 1 {
			t.Errorf("a segment that cannot be %s: %v, next %d", what, err, l.Next())
		}
		if err := os.RemoveAll(in); err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, reader); fmt.Sprint(got) != "[a]" {
			t.Errorf("read %q", got)
		}
		appendAll(t, l, "b", "c")
		if got := readAll(t, reader); fmt.Sprint(got) != "[b c]" {
			t.Errorf("a segment that could not be %s: read %q", what, got)
		}
		if all, err := segments(dir); err != nil || fmt.Sprint(all) != "[0 1]" {
			t.Errorf("segments %v, %v", all, err)
		}
		appendAll(t, openLog(t, dir), "d")
		if got := readAll(t, reader); fmt.Sprint(got) != "[d]" {
			t.Errorf("opened anew: read %q", got)
		}
	}
}

// If flushing the name of a segment failed, Append flushes it before it acknowledges a record.
func TestNameIsFlushedLater(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	l.named = false
	l.dir = filepath.Join(dir, "elsewhere")
	if _, err := l.Append([]byte("a")); err == nil || l.named {
		t.Errorf("%v, the name is flushed %v", err, l.named)
	}
	l.dir = dir
	appendAll(t, l, "a")
	if !l.named {
		t.Error("the name is not flushed")
	}
	if got := readAll(t, ReadLog(dir, 0)); fmt.Sprint(got) != "[a]" {
		t.Errorf("read %q", got)
	}
}

// Damage before the last record is an error that says where, and nothing is truncated.
func TestDamagedLog(t *testing.T) {
	dir := t.TempDir()
	appendAll(t, openLog(t, dir), "first", "second", "third")
	path := segmentPath(dir, 0)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(whole) - len("third") {
		data := bytes.Clone(whole)
		data[at] ^= 0x10
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := OpenLog(dir)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d: %v", at, err)
		}
		if left, _ := os.ReadFile(path); !bytes.Equal(left, data) {
			t.Errorf("byte %d: the damaged file was changed", at)
		}
	}
}

func TestLogIndex(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	big := strings.Repeat("x", segmentBytes)
	appendAll(t, l, "a", big, "c", "d")
	x := IndexLog(dir)
	defer x.Close()
	read := func(number int64, want string) {
		t.Helper()
		if got, err := x.Read(number); err != nil || string(got) != want {
			t.Errorf("record %d: %.10q, %v; want %.10q", number, got, err, want)
		}
	}
	for _, n := range []int{3, 0, 2, 1, 3} {
		read(int64(n), []string{"a", big, "c", "d"}[n])
	}
	if _, err := x.Read(4); err == nil || !strings.Contains(err.Error(), "ends before record 4") {
		t.Errorf("reading what is not there yet: %v", err)
	}
	appendAll(t, l, "e")
	read(4, "e")
	if err := errors.Join(x.Close(), l.Trim(2)); err != nil {
		t.Fatal(err)
	}
	read(2, "c")
	if _, err := x.Read(1); err == nil || !strings.Contains(err.Error(), "record 1 has been removed") {
		t.Errorf("reading what was removed: %v", err)
	}
}

// Bytes behind the last record that are no record are an error that says what to do, and what it says works.
func TestGarbageBehindALog(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append([]byte("whole")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := segmentPath(dir, 0)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(slices.Clone(data), "<html>not found</html>"...), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = OpenLog(dir)
	want := fmt.Sprintf("give up what follows byte %d with `truncate -s %d %s`", len(data), len(data), path)
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Fatalf("%v, want … %s", err, want)
	}
	if err := os.Truncate(path, int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(dir); err != nil || l.next != 1 {
		t.Errorf("after that: %v, %+v", err, l)
	}
	l.Close()
}
