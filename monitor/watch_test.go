package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// A display that is made of a run's files shows what the run has written, follows it, and says when
// no process does the run.
func TestWatchFollowsARun(t *testing.T) {
	job := t.TempDir()
	home := filepath.Join(job, "monitor")
	mons, err := Open([]string{"jsonl"}, nil, Run{Dir: home, Project: "p", Name: "n", TotalSteps: 10, Parts: []string{"trainer"}})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TakeLock(job, "trainer", "")
	if err != nil {
		t.Fatal(err)
	}
	explored := exploreRecord(1, 0.25)
	explored.Samples = []trinity.Sample{
		{Prompt: "1+1=?", Response: "a\x1b[31m\nb", Reward: 0.125}, {Prompt: "1+2=?", Response: "3", Reward: 1},
	}
	logAll(t, mons[0], explored, trainRecord(1, 2.5))
	w, err := OpenWatch(job)
	if err != nil {
		t.Fatal(err)
	}
	w.display.started = noon
	now := time.Now()
	text := func() string {
		t.Helper()
		if err := w.Update(now); err != nil {
			t.Fatal(err)
		}
		return w.Text()
	}
	got := text()
	for _, want := range []string{
		"p/n\n", "step     1/10  ━", "reward   0.25\n", "loss     2.5\n", `worst    reward 0.125  1+1=? → a\x1b[31m b` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, not := range []string{"waits    ", "failed   ", "silent ", "ended "} {
		if strings.Contains(got, not) {
			t.Errorf("%q in\n%s", not, got)
		}
	}

	tracer, err := trace.New(trace.Options{
		Dir: filepath.Join(job, rundir.Traces), Spans: true, Text: func(int32) string { return "" }, Say: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	span := func(role string, kind trinity.SpanKind, to string, begin, end time.Duration) {
		tracer.Span(trinity.Span{Role: role, Kind: kind, For: to, Step: 2, Begin: now.Add(begin), End: now.Add(end)})
	}
	span("trainer", trinity.SpanWait, "explorer", -70*time.Second, -30*time.Second)
	span("explorer", trinity.SpanWait, "a slot of the model", -20*time.Second, -14*time.Second)
	span("explorer", trinity.SpanWait, "a slot of the model", -18*time.Second, -14*time.Second)
	for range 5000 {
		span("explorer", trinity.SpanWait, "a slot of the model", -15*time.Second, -14*time.Second)
	}
	span("explorer b", trinity.SpanReward, "", -3*time.Second, -time.Second)
	span("trainer", trinity.SpanForward, "", -20*time.Second, -12*time.Second)
	for run := range 2 {
		tracer.Failed(trinity.FailedRollout{
			ID: trinity.ExperienceID{Step: 2, Task: "sums/7", Run: run}, Role: "explorer", Kind: "workflow",
			Reason: "no tool\x07\nat line 5", Time: now.Add(time.Duration(run) * time.Second),
		})
	}
	tracer.Failed(trinity.FailedRollout{
		ID: trinity.ExperienceID{Step: 2, Task: "sums/8"}, Role: "explorer", Kind: trinity.DroppedAnswer, Time: now.Add(time.Minute),
	})
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}
	logAll(t, mons[0], exploreRecord(2, 0.75), trainRecord(2, 1.5))
	if err := KeepWait(home, "trainer", "explorer"); err != nil {
		t.Fatal(err)
	}
	got = text()
	for _, want := range []string{
		"step     2/10  ━", "waits    trainer for explorer 50%  explorer for a slot of the model 10%\n",
		`failed   2  step 2, task sums/7, run 1, by workflow: no tool\a` + "\n",
		"silent   explorer for 14s, after: wait for a slot of the model of step 2; trainer for 12s, after: forward of step 2\n",
		"worst    reward 0.125",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if frame := string(w.Frame(40, 6)); strings.Count(frame, "\r\n") != 5 {
		t.Errorf("a terminal of 6 lines gets %q", frame)
	}
	if _, err := os.Stat(filepath.Join(home, "sent_.json")); err == nil {
		t.Error("the display has written into the run's directory")
	}

	lock.Release()
	if err := KeepEnd(home, []string{"trainer"}, Failed, "disk\x1bfull"); err != nil {
		t.Fatal(err)
	}
	if got := text(); !strings.Contains(got, `ended    trainer failed: disk\x1bfull`+"\n") || strings.Contains(got, "\nsilent ") {
		t.Errorf("the run has ended, and the display is\n%s", got)
	}
}

// The time left follows from the time in which processes of the run lived, however long it paused.
func TestPausesAreNoPartOfThePace(t *testing.T) {
	d := newDisplay(Run{TotalSteps: 10})
	d.started = noon
	step := func(n int64, at time.Duration) {
		d.add(trinity.Record{Role: "trainer", Step: n, Time: noon.Add(at), Metrics: trinity.Metrics{"time/train_step": 1}})
	}
	for n := range int64(4) {
		step(n+1, time.Duration(n+1)*10*time.Second)
	}
	const day = 24 * time.Hour
	d.starts = []time.Time{noon, noon.Add(day), noon.Add(2 * day)} // the second one died before its first step
	step(5, 2*day+10*time.Second)
	step(6, 2*day+20*time.Second)
	if left, ok := d.left(6); !ok || left != 40*time.Second {
		t.Errorf("left %v, %v, want 40s", left, ok)
	}
	for _, c := range []struct{ from, to, want time.Duration }{{0, 5, 5}, {0, 0, 0}, {5, 0, 0}, {-9, 5, 5}, {0, day, 0}, {1, day + 7, 7}} {
		if got := rundir.Lived(d.starts, noon.Add(c.from), noon.Add(c.to)); got != c.want {
			t.Errorf("between %v and %v: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// Spans reach the disk apart from the records. A wait after the newest record is no part of the time
// until then.
func TestWaitsAreAPartOfTheTime(t *testing.T) {
	d := newDisplay(Run{})
	d.started = noon
	span := func(begin, end time.Duration) {
		d.heard.span(trinity.Span{Role: "trainer", Kind: trinity.SpanWait, For: "explorer", Begin: noon.Add(begin), End: noon.Add(end)})
	}
	span(time.Second, 3*time.Second)
	span(5*time.Second, 9*time.Second)
	half := "trainer for explorer 50%"
	for now, want := range map[time.Duration]string{0: "", 4 * time.Second: half, 6 * time.Second: half} {
		if got := strings.Join(d.heard.waits(noon, noon.Add(now)), "; "); got != want {
			t.Errorf("after %v: %q, want %q", now, got, want)
		}
	}
}

// An evaluation is named by a taskset and a workflow, and cannot write on the terminal.
func TestNamesOfEvaluationsAreText(t *testing.T) {
	d := newDisplay(Run{})
	d.add(rec("explorer", 1, trinity.Metrics{"eval/a\x1b[2J/reward/mean@1": 1}))
	if got := fmt.Sprint(d.lines(80)); strings.Contains(got, "\x1b") || !strings.Contains(got, `a\x1b[2J/reward/mean@1 1`) {
		t.Errorf("%q", got)
	}
}

// Of several stages the one that has logged last is shown, with the records of all its explorers, also
// if it begins while the one before is shown.
func TestWatchShowsTheNewestStage(t *testing.T) {
	job := t.TempDir()
	if _, err := OpenWatch(job); err == nil || !strings.Contains(err.Error(), "has no metrics.jsonl") {
		t.Errorf("an empty directory gives %v", err)
	}
	var w *Watch
	for i, dir := range []string{"a_warmup/monitor", "rl/monitor/a", "rl/monitor/b"} {
		dir := filepath.Join(job, dir)
		mons, err := Open([]string{"jsonl"}, nil, Run{Dir: dir, Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		logAll(t, mons[0], exploreRecord(int64(i+1), float64(i)))
		when := time.Now().Add(time.Duration(i-10) * time.Second)
		if err := os.Chtimes(filepath.Join(dir, rundir.MetricsFile), when, when); err != nil {
			t.Fatal(err)
		}
		if w == nil {
			if w, err = OpenWatch(job); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Update(time.Now()); err != nil {
			t.Fatal(err)
		}
		if i == 0 && !strings.Contains(w.Text(), "step     1 ") {
			t.Errorf("the first stage shows %s", w.Text())
		}
	}
	if got := w.Text(); w.job != filepath.Join(job, "rl") || !strings.Contains(got, "step     3 ") || !strings.Contains(got, "1 … 2") {
		t.Errorf("%s: %s", w.job, got)
	}
	if err := os.RemoveAll(job); err != nil {
		t.Fatal(err)
	}
	if err := w.Update(time.Now()); err != nil || w.Alive() || !strings.Contains(w.Text(), "step     3 ") {
		t.Errorf("a run that is gone: %v, %s", err, w.Text())
	}
}
