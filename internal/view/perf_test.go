package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

func printed(t *testing.T, p *Perf) string {
	t.Helper()
	var out strings.Builder
	if err := p.Print(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// says fails the test unless a page has texts, however wide its columns are. It returns the page without the spaces.
func says(t *testing.T, page string, texts ...string) string {
	t.Helper()
	narrow := strings.Join(strings.Fields(page), " ")
	for _, want := range texts {
		if !strings.Contains(narrow, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	return narrow
}

// Time that several spans share counts once, and trace events of one thread never overlap.
func TestPerf(t *testing.T) {
	dir := t.TempDir()
	w, err := trace.New(trace.Options{Dir: dir + "/" + rundir.Traces, Spans: true, Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	at := func(s float64) time.Time { return time.Unix(1000, int64(1e9*s)) }
	id, other := trinity.ExperienceID{Step: 1, Task: "a"}, trinity.ExperienceID{Step: 1, Task: "b"}
	for _, s := range []trinity.Span{
		{Role: "trainer", Kind: trinity.SpanWait, For: "explorer", Begin: at(0), End: at(3)},
		{Role: "trainer", Kind: trinity.SpanForward, Name: "policy", Step: 1, Begin: at(3), End: at(10)},
		{Role: "explorer", Kind: trinity.SpanRollout, Name: "a", Step: 1, Experience: id, Begin: at(0), End: at(2)},
		{Role: "explorer", Kind: trinity.SpanCall, Name: "a", Step: 1, Experience: id, Begin: at(.5), End: at(2)},
		{Role: "explorer", Kind: trinity.SpanReward, Name: "a", Step: 1, Experience: id, Begin: at(2), End: at(2.004)},
		{Role: "explorer", Kind: trinity.SpanRollout, Name: "b", Step: 1, Experience: other, Begin: at(1), End: at(4)},
	} {
		w.Span(s)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := ReadPerf(dir)
	if err != nil {
		t.Fatal(err)
	}
	says(t, printed(t, p),
		": 10.0 s from", "explorer rollout 2 4.00 40.0 % 1.25 2500", "trainer waits for explorer 1 3.00 30.0 % 1 3000",
		"trainer forward policy 1 7.00 70.0 %", "explorer 1 b 3.000 0.000 0.000 0.000 explorer 1 a 2.000 1.500 0.004 0.000",
		"of the whole ms a train step trainer forward policy 7.00 70.0 % 7000",
		"explorer model_call 1.50 15.0 % 1500 explorer between its spans 1.00 10.0 % 1000 explorer rollout 0.50",
		"explorer b 1 3.000 explorer a 1 2.000", "milliseconds explorer 1 a 4")
	var chrome strings.Builder
	if err := p.Chrome(&chrome); err != nil {
		t.Fatal(err)
	}
	var events struct{ TraceEvents []event }
	if err := json.Unmarshal([]byte(chrome.String()), &events); err != nil || len(events.TraceEvents) != 6+2 {
		t.Fatalf("%d events, %v", len(events.TraceEvents), err)
	}
	until := map[[2]int]int64{}
	for _, e := range events.TraceEvents {
		thread := [2]int{e.Process, e.Thread}
		if e.Phase == "X" && e.Begin < until[thread] {
			t.Errorf("%+v overlaps the event before it", e)
		}
		until[thread] = max(until[thread], e.Begin+e.Duration)
	}
}

// A train step goes from the end of the trainer's step before to its own end, with what the explorer did at
// that time.
func TestPerfOfAStep(t *testing.T) {
	span := func(role string, kind trinity.SpanKind, step, begin, end int64) trace.Span {
		return trace.Span{Role: role, Kind: kind, Name: "x", For: "explorer", Step: step, Begin: begin * 1e6, End: end * 1e6}
	}
	read := func() *Perf {
		return &Perf{Trace: "there", spans: []trace.Span{
			span("explorer", trinity.SpanRollout, 1, 0, 4), span("trainer", trinity.SpanForward, 1, 4, 10),
			span("trainer", trinity.SpanPublish, 1, 10, 12), span("explorer", trinity.SpanRollout, 2, 4, 15),
			span("trainer", trinity.SpanWait, 2, 12, 15), span("trainer", trinity.SpanForward, 2, 15, 20),
			span("explorer", trinity.SpanRollout, 3, 15, 23), span("trainer", trinity.SpanWait, 3, 20, 23),
		}}
	}
	p := read()
	if err := p.Only(2); err != nil {
		t.Fatal(err)
	}
	page := says(t, printed(t, p),
		"there, train step 2: 8.0 s from", "explorer rollout 2 8.00 100.0 % 1 4000", "trainer waits for explorer 1 3.00",
		"critical path of the step: each part of it began when another had ended "+
			"role what seconds of the whole trainer forward x 5.00 62.5 % explorer rollout 3.00 37.5 %")
	if strings.Contains(page, "ms a train step") {
		t.Errorf("a step has a mean of steps:\n%s", page)
	}
	for _, step := range []int64{0, 3} {
		if err := read().Only(step); err == nil || err.Error() != fmt.Sprintf("there has no spans of train step %d: it has 1 2", step) {
			t.Errorf("step %d: %v", step, err)
		}
	}
}
