package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/cachedir"
)

// traceSteps writes a trace of a process that does these steps.
func traceSteps(t *testing.T, dir string, from, to int64) {
	t.Helper()
	w, err := New(Options{Dir: dir, Spans: true, Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	for step := from; step <= to; step++ {
		at := time.UnixMicro(step * 1000)
		id := trinity.ExperienceID{Step: step, Task: "é \"x\"", Run: int(step % 3)}
		for i, kind := range []trinity.SpanKind{trinity.SpanCall, trinity.SpanRollout, trinity.SpanReward} {
			w.Span(trinity.Span{
				Role: trinity.RoleExplorer, Kind: kind, Name: fmt.Sprint("task", i), Step: step, Experience: id, Begin: at, End: at.Add(900),
			})
		}
		w.Span(trinity.Span{
			Role: trinity.RoleTrainer, Kind: trinity.SpanWait, For: trinity.RoleExplorer, Step: step, Version: step / 3, Begin: at.Add(5), End: at,
		})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// expanded returns the spans of a table with their words.
func expanded(table *Table) (all []Span) {
	w := table.Words
	for _, s := range table.Spans() {
		all = append(all, Span{
			Role: w[s.Role], Kind: trinity.SpanKind(w[s.Kind]), Name: w[s.Name], For: w[s.For], Step: s.Step, Version: s.Version, ID: w[s.ID],
			Begin: s.Begin, End: s.End,
		})
	}
	return all
}

// like checks that a table has what the other reader of spans finds.
func like(t *testing.T, dir string, table *Table) {
	t.Helper()
	want, err := readSlowly(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := expanded(table); !slices.Equal(got, want) {
		t.Fatalf("%d spans, want %d", len(got), len(want))
	}
}

// update reads what is new, and reports whether something is.
func update(t *testing.T, dir string, table *Table) bool {
	t.Helper()
	isNew, damaged, err := table.Update(dir)
	if err != nil || damaged != nil {
		t.Fatal(damaged, err)
	}
	return isNew
}

// A table has the spans of the trace, also when it grows, when a run resumes, and after a start.
func TestTableFollowsTheTrace(t *testing.T) {
	dir, table := filepath.Join(t.TempDir(), "trace"), &Table{}
	disk := cachedir.New(t.TempDir(), 1<<30)
	if update(t, dir, table) {
		t.Error("a trace that is not there has spans")
	}
	for i, steps := range [][2]int64{{1, 2000}, {1500, 1900}, {1850, 1850}} {
		traceSteps(t, dir, steps[0], steps[1])
		if !update(t, dir, table) || update(t, dir, table) {
			t.Error("the news are wrong")
		}
		like(t, dir, table)
		if err := table.Keep(disk, dir)(); err != nil {
			t.Fatal(err)
		}
		table = LoadTable(disk, dir)
		if like(t, dir, table); update(t, dir, table) || len(table.processes) != i+1 {
			t.Error("a kept table is read anew")
		}
	}
	if err := os.Remove(filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 1, 1))); err != nil {
		t.Fatal(err)
	}
	if !update(t, dir, table) {
		t.Error("the trace has been thinned out")
	}
	like(t, dir, table)
	old, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 3, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 2, 1)), append(old, old...), 0o644); err != nil {
		t.Fatal(err)
	}
	update(t, dir, table) // another file of this name
	like(t, dir, table)
}

// Of a damaged or a half file a table has what comes before, in one line that says where.
func TestTableOfADamagedTrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trace")
	traceSteps(t, dir, 1, 3000)
	path := filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 1, 1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, err := frameSize(whole)
	if err != nil || first == len(whole) {
		t.Fatalf("the trace has one frame, %v", err)
	}
	for _, text := range [][]byte{whole[:first+5], append(bytes.Clone(whole[:first]), "no frame at all"...)} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		var table Table
		_, damaged, err := table.Update(dir)
		isDamaged := len(text) > first+5
		where := fmt.Sprint(path, " is damaged behind byte ", first)
		if err != nil || len(damaged) > 0 != isDamaged || isDamaged && !strings.Contains(damaged[0], where) {
			t.Errorf("%q, %v", damaged, err)
		}
		if n := len(table.Spans()); n == 0 || n >= 12_000 {
			t.Errorf("%d spans", n)
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil { // somebody has copied it again
			t.Fatal(err)
		}
		update(t, dir, &table)
		like(t, dir, &table)
	}
}

// A file of somebody else may be larger than the memory.
func TestLargeFilesAreReadInParts(t *testing.T) {
	dir := t.TempDir()
	w, _ := open(t, Options{Dir: dir, Spans: true})
	w.Span(span("trainer", 1, 1))
	closed(t, w)
	const large = 1 << 30
	if err := os.Truncate(filepath.Join(dir, "spans-000001-000001.jsonl.zst"), large); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var table Table
	_, damaged, err := table.Update(dir)
	spans, readErr := readSlowly(dir)
	runtime.ReadMemStats(&after)
	if len(table.Spans()) != 1 || len(damaged) != 1 || err != nil || len(spans) != 1 || readErr == nil {
		t.Errorf("%d and %d spans, %q, %v, %v", len(table.Spans()), len(spans), damaged, err, readErr)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > large/4 {
		t.Errorf("reading it took %d bytes of memory", n)
	}
}

// The order of processes is that of their numbers, whoever writes first.
func TestOlderProcessWritesLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trace")
	traceSteps(t, dir, 1, 20)
	traceSteps(t, dir, 10, 20)
	path := filepath.Join(dir, fmt.Sprintf(spansPrefix+linesName, 1, 1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table Table
	for _, text := range [][]byte{nil, whole} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		update(t, dir, &table)
		like(t, dir, &table)
	}
}

// No kept table breaks its reader.
func FuzzKeptTable(f *testing.F) {
	table := &Table{Words: []string{"", "a", "b"}, files: map[string]*tableFile{"x": {Offset: 5}}, processes: []*spanProcess{
		{Number: 1, life: life[int32]{First: map[int32]int64{1: 2}},
			Spans: []Compact{{Begin: math.MinInt64, End: 5, Step: -1, ID: 2}, {Kind: 1}}},
	}}
	disk := cachedir.New(f.TempDir(), 1<<30)
	if err := table.Keep(disk, "x")(); err != nil {
		f.Fatal(err)
	}
	var h json.RawMessage
	file, begin, end, err := disk.Load(tableName("x"), &h)
	if err != nil {
		f.Fatal(err)
	}
	body := make([]byte, end-begin)
	if _, err := file.ReadAt(body, begin); err != nil {
		f.Fatal(err)
	}
	file.Close()
	f.Add([]byte(h), body)
	f.Fuzz(func(t *testing.T, header, body []byte) {
		var h tableHeader
		if json.Unmarshal(header, &h) != nil {
			return
		}
		table, ok := h.table(body)
		if !ok {
			return
		}
		expanded(table)
		if err := table.Keep(disk, "y")(); err != nil {
			t.Error(err)
		}
	})
}

// One experience of a step is read alone, with all of its rows, and some columns of all experiences are.
func TestReadAnswer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trace")
	w, err := New(Options{Dir: dir, Text: func(int32) string { return "" }, Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	var all []trinity.TrainedExperience
	for run := range 100 {
		id := trinity.ExperienceID{Step: 1, Task: "t", Run: run}
		e := trinity.Experience{ID: id, Tokens: make([]int32, 3000), Mask: make([]bool, 3000), Logprobs: make([]float32, 3000*(run%2))}
		for i := range e.Tokens {
			e.Tokens[i], e.Mask[i] = int32(i*run), i%(run+2) > 0
		}
		for i := range e.Logprobs {
			e.Logprobs[i] = float32(i * run)
		}
		all = append(all, trinity.TrainedExperience{Experience: e, Updates: make([]trinity.Update, run%3)})
		for i := range all[run].Updates {
			all[run].Updates[i].Index, all[run].Updates[i].Now.Logprob = i, []float32{float32(run), float32(i)}
		}
	}
	w.Trained(trinity.Trained{Step: 1, Experiences: all})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := ReadStep(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range Answers(rows) {
		got, err := ReadAnswer(dir, 1, want.ID)
		if err != nil || !reflect.DeepEqual(Answers(got), []*Answer{want}) {
			t.Fatalf("%s: %d rows, %v", want.ID, len(got), err)
		}
	}
	for i := range rows {
		r := &rows[i]
		r.Streams = Streams{Tokens: r.Tokens, Mask: r.Mask, Advantages: r.Advantages, Logprobs: r.Logprobs, OldLogprobs: r.OldLogprobs}
		r.Updated = Updated{Update: r.Update, Now: r.Now}
	}
	want, err := json.Marshal(Answers(rows))
	if err != nil {
		t.Fatal(err)
	}
	answers, err := ReadAnswers(dir, 1)
	got, jsonErr := json.Marshal(answers)
	if empty := bytes.ReplaceAll(got, []byte("null"), []byte("[]")); err != nil || jsonErr != nil ||
		!bytes.Equal(empty, bytes.ReplaceAll(want, []byte("null"), []byte("[]"))) {
		t.Errorf("the columns of %d answers are others: %v, %v", len(answers), err, jsonErr)
	}
	if rows, err := ReadAnswer(dir, 1, "none"); err != nil || rows != nil {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
