package trace

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// Who goes on behind a position gets each span and failure once, those of half a frame when the frame is whole, and of
// earlier processes only the failures.
func TestPositionsLeadToWhatIsNew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trace")
	var at, failed Position
	next := func() (out string) {
		t.Helper()
		if at == nil {
			before, err := BeforeNewest(dir)
			if at = before; err != nil {
				t.Fatal(err)
			}
		}
		for more := true; more; {
			part, err := NextSpans(dir, at)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range part.Lines {
				out += fmt.Sprint(s.Step, " ")
			}
			if more = !maps.Equal(part.Then, at); more {
				at = part.Then
			}
		}
		for more := true; more; {
			part, err := NextFailures(dir, failed)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range part.Lines {
				out += fmt.Sprint("failed ", one.Step, " ")
			}
			if more = !maps.Equal(part.Then, failed); more {
				failed = part.Then
			}
		}
		return out
	}
	write := func(steps ...int64) {
		t.Helper()
		w, err := New(Options{Dir: dir, Spans: true, Text: func(int32) string { return "" }, Say: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			w.Span(trinity.Span{Role: "explorer", Kind: trinity.SpanRollout, Step: step, Begin: time.UnixMicro(step), End: time.UnixMicro(step)})
			w.Failed(trinity.FailedRollout{ID: trinity.ExperienceID{Step: step}, Role: "explorer", Kind: "workflow", Time: time.UnixMicro(step)})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := next(); got != "" {
		t.Errorf("without a trace: %s", got)
	}
	write(1, 2)
	write(3)
	if got, want := next(), "3 failed 1 failed 2 failed 3 "; got != want {
		t.Errorf("at first %q, want %q", got, want)
	}
	if got := next(); got != "" {
		t.Errorf("again: %s", got)
	}
	write(4)
	if got, want := next(), "4 failed 4 "; got != want {
		t.Errorf("then %q, want %q", got, want)
	}
	path := filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 3, 1))
	frame, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, frame[:len(frame)-3])
	if got := next(); got != "" {
		t.Errorf("half a frame: %s", got)
	}
	appendTo(t, path, frame[len(frame)-3:])
	if got := next(); got != "4 " {
		t.Errorf("the whole frame: %q", got)
	}
	appendTo(t, path, []byte("no frame"))
	part, err := NextSpans(dir, at)
	if at = part.Then; err == nil || !strings.Contains(err.Error(), "is damaged behind byte") {
		t.Errorf("damage gives %v", err)
	}
	if got := next(); got != "" {
		t.Errorf("behind the damage: %s", got)
	}
}

func appendTo(t *testing.T, path string, data []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.Write(data)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
