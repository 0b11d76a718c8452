package monitor

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

func exploreRecord(step int64, reward float64) trinity.Record {
	return rec("explorer", step, trinity.Metrics{
		"rollout/reward/mean": reward, "rollout/tokens_per_second": 1234, "rollout/response_length/mean": 56.25, "time/explore_step": 3,
		"time/explorer_sync_interval": 1, "rollout/failed_run_count": 0,
	})
}

func trainRecord(step int64, loss float64) trinity.Record {
	return rec("trainer", step, trinity.Metrics{
		"actor/final_loss": loss, "actor/lr": 1e-5, "actor/grad_norm": 0.5, "perf/throughput": 2500, "time/train_step": 6,
		"time/read_experience": 2,
	})
}

func TestConsoleWritesPlainLinesElsewhere(t *testing.T) {
	path := t.TempDir() + "/out"
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := newConsole(f)
	if err := c.Open(Run{Name: "r", TotalSteps: 10, Trains: true}); err != nil {
		t.Fatal(err)
	}
	eval := rec("explorer", 2, trinity.Metrics{"eval/held_out/accuracy/mean@1": 0.5, "eval/held_out/response_length/mean@1": 9,
		"time/eval": 3})
	pairs := rec("trainer", 0, trinity.Metrics{"eval/pairs/ranking_accuracy": 0.5, "eval/pairs/dpo_loss": 0.75,
		"eval/pairs/kl_loss": 0, "eval/pairs/final_loss": 1, "eval/pairs/kl_coef": 0.1})
	logAll(t, c, pairs, exploreRecord(2, 0.25), trainRecord(2, -0.125), eval, exploreRecord(3, 0.5))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	want := "12:00:00  step 0/10  eval/pairs/dpo_loss 0.75  eval/pairs/ranking_accuracy 0.5\n" +
		"12:00:20  step 2/10  reward 0.25  length 56.25  rollout 1.23k tok/s  3s  waits 25%  " +
		"loss -0.125  grad 0.5  lr 1e-05  train 2.5k tok/s  6s  waits 25%\n" +
		"12:00:20  step 2/10  eval/held_out/accuracy/mean@1 0.5\n" +
		"12:00:30  step 3/10  reward 0.5  length 56.25  rollout 1.23k tok/s  3s  waits 25%\n" // no train step has followed
	if err != nil || string(got) != want {
		t.Errorf("got\n%swant\n%s%v", got, want, err)
	}
}

// Whoever reads a log hears of a long step after half a minute, and then every half minute.
func TestConsoleBreaksLongSilence(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out}
	if err := c.Open(Run{TotalSteps: 10, Trains: true}); err != nil {
		t.Fatal(err)
	}
	c.plain.last = noon
	c.Progress("explorer", "explores step 2", 24, 96)
	c.Progress("trainer", "waits for experiences", 0, 0)
	for role, of := range c.display.doing {
		of.since = noon.Add(-5 * time.Second)
		c.display.doing[role] = of
	}
	for _, after := range []time.Duration{10, 29, 31, 50, 60, 62} {
		if err := c.tick(noon.Add(after * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	want := "12:00:31  explores step 2 24/96 for 36s, waits for experiences for 36s\n" +
		"12:01:02  explores step 2 24/96 for 1m07s, waits for experiences for 1m07s\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

// In 80 columns no field is cut, and a trainer of a dataset waits for nobody.
func TestLiveDisplayInEightyColumns(t *testing.T) {
	width, height := 80, 24
	c, out := liveConsole(&width, &height)
	e, tr := exploreRecord(120, 0.835938), trainRecord(120, -0.00517312)
	e.Metrics["rollout/failed_run_count"], e.Metrics["rollout/tokens_per_second"] = 12, 11834.5
	tr.Metrics["actor/kl_loss"], tr.Metrics["actor/grad_norm"], tr.Metrics["actor/lr"] = 0.001234, 0.558234, 4.3134e-5
	logAll(t, c, e, tr)
	c.Progress("explorer", "evaluates new_sums", 20, 200)
	_ = c.tick(noon.Add(time.Hour))
	tm := &terminal{width: width}
	tm.write(t, out.String())
	text := tm.text()
	for _, want := range []string{"waits 25%", "kl 0.001234", "grad 0.5582", "failed 12", "now      evaluates new_sums 20/200"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Count(text, "waits 25%") != 2 || strings.Contains(text, "…\n") {
		t.Errorf("a field was cut:\n%s", text)
	}
	c.display.run.FromData = true
	if rows := c.display.lines(width); strings.Contains(rows[4].text, "waits") {
		t.Errorf("a trainer of a dataset waits: %q", rows[4])
	}
}

// terminal interprets the few control sequences that the screen uses, on a grid of a given width.
type terminal struct {
	width int
	rows  [][]rune
	y, x  int
}

func (tm *terminal) row() *[]rune {
	for len(tm.rows) <= tm.y {
		tm.rows = append(tm.rows, nil)
	}
	return &tm.rows[tm.y]
}

func (tm *terminal) write(t *testing.T, s string) {
	t.Helper()
	for s != "" {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			tm.control(t, rest[:end], rest[end])
			s = rest[end+1:]
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		switch r {
		case '\r':
			tm.x = 0
		case '\n':
			tm.y++
		default:
			if tm.x == tm.width {
				tm.y, tm.x = tm.y+1, 0
			}
			row := tm.row()
			for len(*row) <= tm.x {
				*row = append(*row, ' ')
			}
			(*row)[tm.x] = r
			tm.x++
		}
	}
}

func (tm *terminal) control(t *testing.T, arg string, verb byte) {
	t.Helper()
	row := tm.row()
	switch {
	case verb == 'A':
		n := 0
		for _, d := range arg {
			n = 10*n + int(d-'0')
		}
		tm.y = max(0, tm.y-n)
	case verb == 'K':
		*row = (*row)[:min(len(*row), tm.x)]
	case verb == 'J':
		*row, tm.rows = (*row)[:min(len(*row), tm.x)], tm.rows[:tm.y+1]
	case verb == 'm' || arg == "?2026":
	default:
		t.Fatalf("unknown control sequence %q%c", arg, verb)
	}
}

// narrow wraps the shown lines, like a terminal whose window becomes narrower.
func (tm *terminal) narrow(width int) {
	var rows [][]rune
	for i, r := range tm.rows {
		if i == tm.y {
			tm.y = len(rows)
		}
		for len(r) > width {
			rows, r = append(rows, r[:width:width]), r[width:]
		}
		rows = append(rows, r)
	}
	tm.rows, tm.width = rows, width
}

func (tm *terminal) text() string {
	var b strings.Builder
	for _, r := range tm.rows {
		b.WriteString(strings.TrimRight(string(r), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func liveConsole(width, height *int) (*console, *bytes.Buffer) {
	var out bytes.Buffer
	c := &console{out: &out, size: func() (int, int) { return *width, *height }}
	_ = c.Open(Run{Project: "p", Name: "r", TotalSteps: 8}) // never returns an error
	c.display.started = noon
	return c, &out
}

func TestLiveDisplayUpdatesInPlace(t *testing.T) {
	width, height := 100, 24
	c, out := liveConsole(&width, &height)
	tm := &terminal{width: width}
	tm.write(t, "$ trinity run\r\n")
	show := func(records ...trinity.Record) string {
		logAll(t, c, records...)
		tm.write(t, out.String())
		out.Reset()
		return tm.text()
	}
	show(exploreRecord(1, 0), trainRecord(1, 3))
	got := show(exploreRecord(2, 0.5), trainRecord(2, 2), exploreRecord(3, 1), trainRecord(3, 1), exploreRecord(4, 0.25), trainRecord(4, 1),
		rec("trainer", 4, trinity.Metrics{"eval/pairs/accuracy_mean": 0.75}),
		rec("explorer", 4, trinity.Metrics{"eval/held_out/accuracy/mean@1": 0.5}))
	want := `$ trinity run
p/r
step     4/8  ━━━━━━━━━━━━━━━━━━━━────────────────────  50%  after 40s  left 40s
reward   0.25  ▁▅█▃  0 … 1
rollout  1.23k tok/s  waits 25%  step 3s  length 56.25
train    2.5k tok/s  waits 25%  step 6s  grad 0.5  lr 1e-05
loss     1  █▅▁▁  1 … 3
eval     held_out/accuracy/mean@1 0.5  at step 4
eval     pairs/accuracy_mean 0.75  at step 4
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	width = 40
	tm.narrow(width)
	got = show(trainRecord(5, 1))
	if strings.Count(got, "p/r") != 1 || strings.Count(got, "eval") != 2 || !strings.HasPrefix(got, "$ trinity run\n") {
		t.Errorf("a narrower window shows leftovers:\n%s", got)
	}
	for line := range strings.Lines(got) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n >= width {
			t.Errorf("a line of %d columns in a window of %d: %s", n, width, line)
		}
	}
	if err := c.Close(); err != nil || out.Len() != 0 {
		t.Errorf("Close wrote %q, %v", out, err)
	}
}

func TestLiveDisplayFitsALowWindow(t *testing.T) {
	width, height := 80, 4
	c, out := liveConsole(&width, &height)
	logAll(t, c, exploreRecord(1, 0), trainRecord(1, 3))
	tm := &terminal{width: width}
	tm.write(t, out.String())
	if len(tm.rows) > height {
		t.Errorf("%d lines in a window of %d", len(tm.rows), height)
	}
}

func TestLiveDisplayNeedsNeitherTrainerNorTotal(t *testing.T) {
	c := &console{out: io.Discard, size: func() (int, int) { return 80, 24 }}
	if err := c.Open(Run{Name: "r"}); err != nil {
		t.Fatal(err)
	}
	c.display.started = noon
	logAll(t, c, exploreRecord(6, 0.5))
	if rows := c.display.lines(80); rows[1].text != "6  after 1m00s" || len(rows) != 4 {
		t.Errorf("rows %q", rows)
	}
}
