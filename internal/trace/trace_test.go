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
	"github.com/parquet-go/parquet-go"

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
		Reward: trinity.NewReward(map[string]float64{"accuracy": 1}), Prompt: "p", Response: "r", Truth: "t", Info: map[string]any{"k": 1.5},
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
	w, said := open(t, Options{Dir: dir})
	w.Trained(trained(12))
	closed(t, w)
	if said() != nil {
		t.Errorf("said %q", said())
	}
	rows, err := ReadStep(dir, 12)
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	want := Rows(trained(12))
	if got := fmt.Sprintf("%+v", rows[1].Updated); got != fmt.Sprintf("%+v", want[1].Updated) {
		t.Errorf("read %s", got)
	}
	first := rows[0]
	if first.ID != "12/a/1/1/0" || *first.Reward != 1 || first.Parts != `{"accuracy":1}` || first.Info != `{"k":1.5}` ||
		first.OldestVersion != 3 || !reflect.DeepEqual(first.Streams.OldLogprobs, Floats{0, -1.5, -2.5}) ||
		first.Temperature != .7 || first.Truth != "t" || rows[1].Update != 2 {
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

// A file is that of its step alone, whatever the table has written before.
func TestStepsShareNothing(t *testing.T) {
	long := trained(5)
	for range 4 {
		long.Experiences = append(long.Experiences, long.Experiences...)
	}
	dir := t.TempDir()
	var shared table
	if err := os.MkdirAll(filepath.Join(dir, trainedDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, step := range []trinity.Trained{long, trained(6)} {
		if _, err := shared.write(dir, step); err != nil {
			t.Fatal(err)
		}
	}
	alone := t.TempDir()
	if _, err := writeTrainedIn(alone, trained(6)); err != nil {
		t.Fatal(err)
	}
	got, err := ReadStep(dir, 6)
	want, err2 := ReadStep(alone, 6)
	if err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v, %v, %v", got, want, err, err2)
	}
	if rows, err := ReadStep(dir, 5); err != nil || len(rows) != 3*16 {
		t.Errorf("%d rows of the long step, %v", len(rows), err)
	}
}

// span returns a span of a role's step that ends at a second.
func span(role string, step, end int64) trinity.Span {
	return trinity.Span{Role: role, Kind: trinity.SpanForward, Step: step, Begin: time.Unix(end-1, 0), End: time.Unix(end, 0)}
}

// What a resumed run does again replaces what the killed process did of it; another role's steps stay.
func TestResumedStepsReplace(t *testing.T) {
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, Spans: true})
	for step := range int64(4) {
		w.Span(span("trainer", step+1, 10+step))
		w.Span(span("explorer", step+2, 10+step))
		w.Trained(trained(step + 1))
		for w.waiting.Load() > 0 { // more would be lost
			time.Sleep(time.Millisecond)
		}
	}
	closed(t, w)
	w, _ = open(t, Options{Dir: dir, FromStep: 2, Spans: true})
	saved := time.Unix(19, 0)
	w.Span(trinity.Span{Role: "trainer", Kind: trinity.SpanCheckpoint, Step: 2, Begin: saved, End: saved}) // does no step
	w.Span(span("trainer", 3, 20))
	w.Span(span("explorer", 5, 20))
	w.Span(span("trainer", 4, 21))
	if steps, err := Steps(dir); err != nil || len(steps) != 4 {
		t.Errorf("before the first step the trace has the steps %v, %v", steps, err)
	}
	w.Trained(trained(3))
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
	if steps, err := Steps(dir); err != nil || !reflect.DeepEqual(steps, []int64{1, 2, 3}) {
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
	l := lines{dir: dir, prefix: spansPrefix, process: 1, max: maxFile}
	for step := range int64(6) {
		if err := l.add(SpanOf(span("trainer", step, step))); err != nil {
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
			w, said := open(t, Options{Dir: dir, Spans: true, Text: c.text})
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
	w, said := open(t, Options{Dir: t.TempDir(), Spans: true, Text: func(int32) string { <-hold; return "" }})
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

// Any two train steps wait to be written, and more if they are small.
func TestSmallStepsWait(t *testing.T) {
	for tokens, want := range map[int]struct {
		steps int
		says  string
	}{
		2: {maxSteps + 3, "[]"}, maxTokens: {maxSteps, "lacks 3 "},
	} {
		hold, dir := make(chan struct{}), t.TempDir()
		w, said := open(t, Options{Dir: dir, Text: func(int32) string { <-hold; return "" }})
		for step := range int64(maxSteps + 3) {
			e := trinity.Experience{ID: trinity.ExperienceID{Step: step}, Tokens: make([]int32, tokens), Mask: make([]bool, tokens)}
			w.Trained(trinity.Trained{Step: step + 1, Experiences: []trinity.TrainedExperience{{Experience: e}}})
		}
		close(hold)
		closed(t, w)
		steps, err := Steps(dir)
		if lines := fmt.Sprint(said()); err != nil || len(steps) != want.steps || !strings.Contains(lines, want.says) {
			t.Errorf("%d tokens: %d steps, %v, said %s", tokens, len(steps), err, lines)
		}
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
			all = append(all, sized{path: fmt.Sprint(step), step: step, bytes: 10})
		}
		return all
	}
	spans := []sized{{path: "a", bytes: 30}, {path: "b", bytes: 30}, {path: "c", bytes: 10, last: true}}
	for _, c := range []struct {
		files files
		limit int64
		want  string
	}{
		{files{trained: steps(1, 10)}, 100, ""},
		{files{trained: steps(1, 11)}, 90, "2 4"},
		{files{trained: steps(1, 11)}, 60, "2 4 6 8 10"},
		{files{trained: steps(1, 11)}, 40, "2 4 6 8 10 3 7"},
		{files{trained: steps(1, 10)}, 20, "2 4 6 8 3 7 5 9"},
		{files{lines: spans}, 160, "a"},
		{files{trained: steps(1, 3), lines: spans}, 100, "a b"},
		{files{trained: steps(1, 9), lines: spans}, 90, "a b 2"},
	} {
		if got := strings.Join(c.files.over(c.limit, 1), " "); got != c.want {
			t.Errorf("%d train steps, %d files of spans, limit %d: %q, want %q", len(c.files.trained), len(c.files.lines), c.limit, got, c.want)
		}
	}
	var tenth []sized // of which no step is even
	for step := int64(1); step < 50; step += 10 {
		tenth = append(tenth, sized{path: fmt.Sprint(step), step: step, bytes: 10})
	}
	if got := strings.Join(files{trained: tenth}.over(30, 10), " "); got != "11 31" {
		t.Errorf("of every tenth step go %q", got)
	}
}

func TestTraceStaysBelowItsLimit(t *testing.T) {
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, MaxBytes: 40_000})
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

// Without train steps, too, and with failures that are large.
func TestLinesStayBelowTheLimit(t *testing.T) {
	const limit = 1 << 20
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, Spans: true, MaxBytes: limit})
	for i := range 40 {
		f := trinity.FailedRollout{ID: trinity.ExperienceID{Step: int64(i)}, Role: trinity.RoleExplorer, Kind: trinity.FailedTool}
		for k := range 30_000 {
			f.Prompt = append(f.Prompt, int32(k*(i+7)*2654435761%100_003))
		}
		w.Failed(f)
	}
	closed(t, w)
	files, err := filesOf(dir)
	if n := sum(files.lines); err != nil || n > limit || n < limit/16 {
		t.Errorf("%d bytes in %d files, %v", n, len(files.lines), err)
	}
}

// What a full queue drops takes no place of a train step.
func TestStepsAreKeptAfterAFullQueue(t *testing.T) {
	hold := make(chan struct{})
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, Spans: true, Text: func(int32) string { <-hold; return "" }})
	w.Trained(trained(1)) // keeps the goroutine
	for len(w.queue) > 0 {
		time.Sleep(time.Millisecond)
	}
	for range maxQueued {
		w.Span(span("trainer", 1, 1))
	}
	for step := range int64(4) {
		w.Trained(trained(step + 2))
	}
	close(hold)
	for w.waiting.Load() > 0 || len(w.queue) > 0 {
		time.Sleep(time.Millisecond)
	}
	w.Trained(trained(9))
	closed(t, w)
	if steps, err := Steps(dir); err != nil || !reflect.DeepEqual(steps, []int64{1, 9}) {
		t.Errorf("steps %v, %v", steps, err)
	}
}

// A resumed run's failures replace those of the steps that it did again, whether or not it failed there.
func TestFailuresOfStepsDoneAgain(t *testing.T) {
	dir := t.TempDir()
	fails := func(step, at int64) trinity.FailedRollout {
		return trinity.FailedRollout{
			ID: trinity.ExperienceID{Step: step}, Role: trinity.RoleExplorer, Kind: trinity.FailedTool, Time: time.Unix(at, 0),
		}
	}
	w, _ := open(t, Options{Dir: dir})
	for step := int64(4); step < 9; step++ {
		w.Failed(fails(step, step))
	}
	closed(t, w)
	w, _ = open(t, Options{Dir: dir})
	w.Span(trinity.Span{Role: trinity.RoleExplorer, Kind: trinity.SpanRollout, Step: 6, Begin: time.Unix(20, 0), End: time.Unix(21, 0)})
	w.Failed(fails(8, 22))
	closed(t, w)
	failures, err := ReadFailures(dir)
	var steps []int64
	for _, f := range failures {
		steps = append(steps, f.Step)
	}
	if err != nil || !reflect.DeepEqual(steps, []int64{4, 5, 8}) {
		t.Errorf("failures of the steps %v, %v", steps, err)
	}
}

// A damaged file takes only its own rest with it.
func TestDamagedFilesShowTheRest(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		w, _ := open(t, Options{Dir: dir, Spans: true})
		w.Span(span("trainer", 1, 1))
		closed(t, w)
	}
	path := filepath.Join(dir, "spans-000001-000001.jsonl.zst")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, TextsFile), make([]byte, 1<<17), 0o644); err != nil {
		t.Fatal(err)
	}
	spans, err := ReadSpans(dir)
	if len(spans) != 2 || err == nil || !strings.Contains(err.Error(), fmt.Sprint(path, " is damaged behind byte ", info.Size())) {
		t.Errorf("%d spans, %v", len(spans), err)
	}
	w, said := open(t, Options{Dir: dir, Spans: true})
	closed(t, w)
	if said() != nil {
		t.Errorf("said %q", said())
	}
}

// A file of a train step that a later version has written is read without its other columns, and refused in
// a line that says so if it lacks one that answers need.
func TestStepsOfOtherVersions(t *testing.T) {
	dir := t.TempDir()
	if _, err := writeTrainedIn(dir, trained(1)); err != nil {
		t.Fatal(err)
	}
	type newer struct {
		First int64 `parquet:"a_first"`
		Row
		Last []string `parquet:"z_last,list"`
	}
	var later []newer
	for _, r := range Rows(trained(1)) {
		later = append(later, newer{1, r, []string{"x", "y"}})
	}
	read := func() (all []any, errs [4]error) {
		rows, err := ReadStep(dir, 1)
		answer, errAnswer := ReadAnswer(dir, 1, "1/a/1/1/0")
		scores, errScores := ReadScores(dir, 1)
		answers, errAnswers := ReadAnswers(dir, 1)
		return []any{rows, answer, scores, answers}, [4]error{err, errAnswer, errScores, errAnswers}
	}
	want, _ := read()
	if err := parquet.WriteFile(StepFile(dir, 1), later); err != nil {
		t.Fatal(err)
	}
	if got, errs := read(); errs != [4]error{} || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v; %v", got, want, errs)
	}
	type texts struct {
		Text string `parquet:"text"`
	}
	type numbered struct {
		ID int64 `parquet:"id"`
	}
	for i, err := range []error{
		parquet.WriteFile(StepFile(dir, 1), []texts{{"x"}}), parquet.WriteFile(StepFile(dir, 2), []numbered{{7}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadStep(dir, int64(1+i))
		if err == nil || !strings.Contains(err.Error(), StepFile(dir, int64(1+i))+`: another version has written it, without a column "id" of`) {
			t.Errorf("file %d: %v", i, err)
		}
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
		for _, path := range []string{StepFile(dir, 1), filepath.Join(dir, "spans-000001-000001.jsonl.zst"), filepath.Join(dir, TextsFile)} {
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
		if _, err := ReadAnswers(dir, 1); err != nil && strings.Contains(err.Error(), "\n") {
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
	return new(table).write(dir, t)
}
