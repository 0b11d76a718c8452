package monitor

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trinity-go/trinity/internal/rundir"
)

// Lines are read once, in parts and with half of the last one, whatever is in the file.
func TestReadSaid(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, rundir.MessagesFile)
	text := "2026-01-02T03:04:05.6Z one\nno time\n2026-01-02T03:04:06Z WARNING: two\n2026-01-02T03:04:07Z half"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	logs, end, err := rundir.ReadMessages(dir, 0, maxBytes)
	if err != nil || end != int64(strings.LastIndex(text, "\n")+1) || len(logs) != 3 {
		t.Fatalf("%v up to %d, %v", logs, end, err)
	}
	first := time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)
	if logs[0].Text != "one" || !logs[0].Time.Equal(first) || logs[1].Text != "no time" || !logs[1].Time.Equal(first) ||
		logs[2].Text != "WARNING: two" {
		t.Errorf("%v", logs)
	}
	if logs, again, err := rundir.ReadMessages(dir, end, maxBytes); len(logs) != 0 || again != end || err != nil {
		t.Errorf("%v up to %d, %v", logs, again, err)
	}
	if logs, end, err := rundir.ReadMessages(t.TempDir(), 7, maxBytes); logs != nil || end != 7 || err != nil {
		t.Errorf("without a file: %v, %d, %v", logs, end, err)
	}
}

// FuzzSaid reads any file in parts. Each byte is read once, except those of a last line without an end.
func FuzzSaid(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05Z a\n\n \xff\n2026"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		cut := 0
		if len(data) > 0 {
			cut = rand.IntN(len(data))
		}
		var at int64
		for _, size := range []int{cut, len(data)} {
			if err := os.WriteFile(filepath.Join(dir, rundir.MessagesFile), data[:size], 0o644); err != nil {
				t.Fatal(err)
			}
			logs, end, err := rundir.ReadMessages(dir, at, maxBytes)
			if err != nil || end < at || end > int64(size) {
				t.Fatalf("from %d to %d of %d: %v", at, end, size, err)
			}
			for _, l := range logs {
				if l.Time.IsZero() && !strings.Contains(string(data), "0001-01-01") {
					t.Errorf("%q has no time", l.Text)
				}
				if text := parseFields(t, (&otel{}).log(0, LogRecord{Time: l.Time, Text: l.Text})).sub(5).bytes[1]; !utf8.Valid(text) {
					t.Errorf("%q is no text", text)
				}
			}
			at = end
		}
	})
}
