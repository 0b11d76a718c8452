package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// Parts have each span once, those of half a frame when it is whole, whoever reads the next one.
func TestPartsHaveEachSpanOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trace")
	var at Position
	next := func() (out string) {
		t.Helper()
		for {
			part, err := NextSpans(dir, at)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(part.Then) == fmt.Sprint(at) {
				return out
			}
			for i, s := range part.Lines {
				if i == 0 {
					out += fmt.Sprintf("process %d: ", part.Process)
				}
				out += fmt.Sprint(s.Step, " ")
			}
			at = part.Then
		}
	}
	write := func(from, to int64) {
		t.Helper()
		w, err := New(Options{Dir: dir, Spans: true, Text: func(int32) string { return "" }, Say: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		for step := from; step <= to; step++ {
			w.Span(trinity.Span{Role: "trainer", Kind: trinity.SpanForward, Step: step, Begin: time.UnixMicro(step), End: time.UnixMicro(step)})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := next(); got != "" {
		t.Errorf("without a trace: %q", got)
	}
	write(1, 2)
	write(3, 3)
	if got, want := next(), "process 1: 1 2 process 2: 3 "; got != want {
		t.Errorf("at first %q, want %q", got, want)
	}
	path := filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 2, 1))
	frame, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range frame { // each half of a frame waits for its other half
		appendTo(t, path, frame[:cut])
		if got := next(); got != "" {
			t.Errorf("%d bytes of a frame: %q", cut, got)
		}
		appendTo(t, path, frame[cut:])
		if got := next(); got != "process 2: 3 " {
			t.Errorf("the frame after %d bytes: %q", cut, got)
		}
	}
	const many = 9000 // some parts
	write(1, many)
	if got := next(); strings.Count(got, "process 3: ") < 3 || len(strings.Fields(strings.ReplaceAll(got, "process 3: ", ""))) != many {
		t.Errorf("of %d spans: %.200s", many, got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if next(); len(at) != 2 {
		t.Errorf("a file that is gone stays in %v", at)
	}
	appendTo(t, filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 3, 1)), []byte("no frame"))
	part, err := NextSpans(dir, at)
	if err == nil || !strings.Contains(err.Error(), "is damaged behind byte") {
		t.Errorf("damage gives %v", err)
	}
	at = part.Then
	if got := next(); got != "" {
		t.Errorf("behind the damage: %q", got)
	}
}
