package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/trinity-go/trinity"
)

// open returns a writer of the traces in dir, and what it says.
func open(t *testing.T, o Options) (*Writer, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var said []string
	o.Say = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	}
	if o.Text == nil {
		o.Text = func(token int32) string { return fmt.Sprintf("<%d>", token) }
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return said
	}
}

func closed(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// trained is a train step of two experiences: one that two optimizer steps learned from, and one that
// was dropped.
func trained(step int64) trinity.Trained {
	one := trinity.Experience{
		ID: trinity.ExperienceID{Step: step, Task: "a/1", Run: 1}, Tokens: []int32{7, 8, 9}, Mask: []bool{false, true, true},
		Logprobs: []float32{0, -1, -2}, Advantages: []float32{0, .5, .5}, PromptLen: 1, Temperature: .7, Versions: [2]int64{3, 4},
		Reward: trinity.NewReward(map[string]float64{"accuracy": 1}), Prompt: "p", Response: "r", Info: map[string]any{"k": 1.5},
	}
	one.OldLogprobs, one.Entropies = []float32{0, -1.5, -2.5}, []float32{0, 1, 2}
	two := trinity.Experience{
		ID: trinity.ExperienceID{Step: step, Task: "a/1", Run: 2}, Tokens: []int32{7, 5}, Mask: []bool{false, true}, PromptLen: 1,
		Reward: trinity.InvalidReward("no number"),
	}
	return trinity.Trained{Step: step, Experiences: []trinity.TrainedExperience{
		{Experience: one, Updates: []trinity.Update{
			{Index: 0, Now: trinity.TokenStats{Logprob: []float32{0, -1.5, -2.5}}, Grads: trinity.TokenGrads{Logprob: []float32{0, -.25, 0}}},
			{Index: 2, Now: trinity.TokenStats{Logprob: []float32{0, -1.4, -2.5}}, Grads: trinity.TokenGrads{Logprob: []float32{0, 0, 0}}},
		}},
		{Experience: two, Dropped: "advantage"},
	}}
}

func TestTrainedStepReadsBack(t *testing.T) {
	dir := t.TempDir()
	w, said := open(t, Options{Dir: dir, Trains: true})
	w.Trained(trained(12))
	closed(t, w)
	if said() != nil {
		t.Errorf("said %q", said())
	}
	rows, err := ReadStep(dir, 12)
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	want := rowsOf(trained(12))
	if got := fmt.Sprintf("%+v", rows[1].Updated); got != fmt.Sprintf("%+v", want[1].Updated) {
		t.Errorf("read %s", got)
	}
	first := rows[0]
	if first.ID != "12/a/1/1/0" || *first.Reward != 1 || first.Parts != `{"accuracy":1}` || first.Info != `{"k":1.5}` ||
		first.OldestVersion != 3 || !reflect.DeepEqual(first.Streams.OldLogprobs, []float32{0, -1.5, -2.5}) ||
		first.Temperature != .7 || rows[1].Update != 2 {
		t.Errorf("read %+v", first)
	}
	if last := rows[2]; last.Dropped != "advantage" || last.Update != -1 || last.Reward != nil || last.Reason != "no number" ||
		len(last.Now) > 0 {
		t.Errorf("read %+v", last)
	}
	texts, err := ReadTexts(dir)
	if err != nil || len(texts) != 4 || texts[9] != "<9>" {
		t.Errorf("texts %v, %v", texts, err)
	}
}

// span returns a span of a role's step that ends at a second.
func span(role string, step, end int64) trinity.Span {
	return trinity.Span{Role: role, Kind: trinity.SpanForward, Step: step, Begin: time.Unix(end-1, 0), End: time.Unix(end, 0)}
}

// What a resumed run does again replaces what the killed process did of it; another role's steps stay.
func TestResumedStepsReplace(t *testing.T) {
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, Trains: true, Spans: true})
	for step := range int64(4) {
		w.Span(span("trainer", step+1, 10+step))
		w.Span(span("explorer", step+2, 10+step))
		w.Trained(trained(step + 1))
		for w.waiting.Load() > 0 { // more would be lost
			time.Sleep(time.Millisecond)
		}
	}
	closed(t, w)
	w, _ = open(t, Options{Dir: dir, FromStep: 2, Trains: true, Spans: true})
	saved := time.Unix(19, 0)
	w.Span(trinity.Span{Role: "trainer", Kind: trinity.SpanCheckpoint, Step: 2, Begin: saved, End: saved}) // does no step
	w.Span(span("trainer", 3, 20))
	w.Span(span("explorer", 5, 20))
	w.Span(span("trainer", 4, 21))
	closed(t, w)
	spans, err := ReadSpans(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range spans {
		got = append(got, fmt.Sprintf("%s %d @%d", s.Role, s.Step, s.End/1e6))
	}
	want := []string{"trainer 1 @10", "explorer 2 @10", "trainer 2 @11", "explorer 3 @11", "explorer 4 @12", "trainer 2 @19", "trainer 3 @20",
		"explorer 5 @20", "trainer 4 @21"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %q\nwant %q", got, want)
	}
	if steps, err := Steps(dir); err != nil || !reflect.DeepEqual(steps, []int64{1, 2}) {
		t.Errorf("steps %v, %v", steps, err)
	}
}

// Two processes that run at the same time replace nothing of one another.
func TestProcessesAtOnce(t *testing.T) {
	dir := t.TempDir()
	var all []*Writer
	for range 2 {
		w, _ := open(t, Options{Dir: dir, Spans: true})
		all = append(all, w)
	}
	for i, w := range all {
		w.Span(span("explorer", 1, int64(10+i)))
		w.Span(span("explorer", 1, int64(20+i)))
	}
	for _, w := range all {
		closed(t, w)
	}
	if spans, err := ReadSpans(dir); err != nil || len(spans) != 4 {
		t.Errorf("%d spans, %v", len(spans), err)
	}
}

// A killed process leaves its last write in part.
func TestWhatIsLeftOfAKilledProcessIsAPrefix(t *testing.T) {
	dir := t.TempDir()
	l := lines{dir: dir, prefix: spansPrefix}
	for step := range int64(6) {
		if err := l.add(spanOf(span("trainer", step, step))); err != nil {
			t.Fatal(err)
		}
		if step%2 == 1 {
			if err := l.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "spans-000001-000001.jsonl.zst")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		spans, err := ReadSpans(dir)
		if err != nil || len(spans) < most {
			t.Fatalf("%d of %d bytes: %d spans, %v", n, len(whole), len(spans), err)
		}
		most = len(spans)
		for i, s := range spans {
			if s.Step != int64(i) {
				t.Errorf("%d bytes: span %d is of step %d", n, i, s.Step)
			}
		}
	}
	if most != 6 {
		t.Errorf("the whole file has %d spans", most)
	}
}

// The run goes on without a trace that cannot be written, and reads why in one line.
func TestBrokenTraceIsSaidOnce(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(t *testing.T, dir string)
		text   func(int32) string
		want   string
	}{
		"the directory is gone": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, nil, "no such file"},
		"a panic": {func(*testing.T, string) {}, func(int32) string { panic("no text") }, "no text"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "trace")
			w, said := open(t, Options{Dir: dir, Trains: true, Spans: true, Text: c.text})
			c.breaks(t, dir)
			for step := range int64(3) {
				w.Trained(trained(step))
				w.Span(span("trainer", step, step))
			}
			closed(t, w)
			if lines := said(); len(lines) != 1 || !strings.Contains(lines[0], c.want) || strings.Contains(lines[0], "\n") {
				t.Errorf("said %q", lines)
			}
		})
	}
}

// A tracer never blocks: what its queue cannot hold is counted.
func TestWhatComesTooFastIsCounted(t *testing.T) {
	hold := make(chan struct{})
	w, said := open(t, Options{Dir: t.TempDir(), Trains: true, Spans: true, Text: func(int32) string { <-hold; return "" }})
	for step := range int64(maxSteps + 3) {
		w.Trained(trained(step))
	}
	for range maxQueued + 10 {
		w.Span(span("trainer", 1, 1))
	}
	close(hold)
	closed(t, w)
	lines := said()
	if len(lines) != 1 || !strings.Contains(lines[0], "lacks 1") {
		t.Errorf("said %q", lines)
	}
}

// A workflow that the run has abandoned may call a model after the end of the run.
func TestSpansAfterTheEnd(t *testing.T) {
	w, said := open(t, Options{Dir: t.TempDir(), Spans: true})
	closed(t, w)
	for range maxQueued + 1 {
		w.Span(span("explorer", 1, 1))
	}
	if said() != nil {
		t.Errorf("said %q", said())
	}
}

func TestFilesOverTheLimit(t *testing.T) {
	steps := func(from, to int64) (all []sized) {
		for step := from; step <= to; step++ {
			all = append(all, sized{fmt.Sprint(step), step, 10})
		}
		return all
	}
	spans := []sized{{"a", 0, 30}, {"b", 0, 30}, {"c", 0, 10}}
	for _, c := range []struct {
		files files
		limit int64
		want  string
	}{
		{files{steps(1, 10), nil}, 100, ""},
		{files{steps(1, 10), nil}, 80, "1 3"},
		{files{steps(1, 10), nil}, 50, "1 3 5 7 9"},
		{files{steps(1, 10), nil}, 30, "1 3 5 7 9 2 6"},
		{files{steps(1, 10), nil}, 1, "1 3 5 7 9 2 6 4 8"}, // the newest stays
		{files{nil, spans}, 160, "a"},
		{files{steps(1, 3), spans}, 100, "a b"},
		{files{steps(1, 9), spans}, 90, "a b 1"},
	} {
		if got := strings.Join(c.files.over(c.limit), " "); got != c.want {
			t.Errorf("%d train steps, %d files of spans, limit %d: %q, want %q", len(c.files.trained), len(c.files.spans), c.limit, got, c.want)
		}
	}
}

func TestTraceStaysBelowItsLimit(t *testing.T) {
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, Trains: true, MaxBytes: 40_000})
	for step := range int64(20) {
		w.Trained(trained(step + 1))
		for w.waiting.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	closed(t, w)
	files, err := filesOf(dir)
	if n := sum(files.trained); err != nil || n > 40_000 || len(files.trained) < 2 || files.trained[len(files.trained)-1].step != 20 {
		t.Errorf("%d bytes of %d steps, %v", n, len(files.trained), err)
	}
}

// Damaged files are errors, or lack their end.
func FuzzReaders(f *testing.F) {
	dir := f.TempDir()
	if _, err := writeTrainedIn(dir, trained(1)); err != nil {
		f.Fatal(err)
	}
	step, err := os.ReadFile(StepFile(dir, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(step)
	f.Add(step[:len(step)/2])
	z, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(z.EncodeAll([]byte(`{"role":"trainer","begin":1}`+"\n"), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		for _, path := range []string{StepFile(dir, 1), filepath.Join(dir, "spans-000001-000001.jsonl.zst"), filepath.Join(dir, textsFile)} {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ReadStep(dir, 1); err != nil && strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
		_, _ = ReadSpans(dir)
		_, _ = ReadTexts(dir)
	})
}

func writeTrainedIn(dir string, t trinity.Trained) (int64, error) {
	if err := os.MkdirAll(filepath.Join(dir, trainedDir), 0o755); err != nil {
		return 0, err
	}
	return writeTrained(dir, t)
}
