package monitor

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// Watch is the live display of a run whose files it reads. It writes none, and takes no lock.
type Watch struct {
	run     *rundir.Run
	job     string // directory of the run, or of its newest stage
	display *display
	screen  screen
	tails   []*tail                // of each of several explorers
	spans   trace.Position         // of the trace, that the display has; nil before the first look
	failed  trace.Position         // of its failed rollouts
	damaged error                  // the first of the trace
	parts   map[string]rundir.Part // what the parts of the run told at the last Update
}

// OpenWatch opens the display of the run in a directory. Of several stages it shows the newest.
func OpenWatch(dir string) (*Watch, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	w := &Watch{run: run}
	w.screen.styled = os.Getenv("NO_COLOR") == ""
	return w, w.follow()
}

// follow turns to the newest stage, and to all its explorers.
func (w *Watch) follow() error {
	newest, err := w.run.Newest()
	if err != nil {
		return err
	}
	if w.job != newest.Dir {
		run, err := aboutRun(filepath.Join(newest.Dir, rundir.Monitor))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(rundir.DamagedError)) {
			return err // else it is of an earlier version, or was killed as it began
		}
		w.job, w.display, w.tails, w.damaged, w.spans, w.failed = newest.Dir, newDisplay(run), nil, nil, nil, nil
		w.display.started = run.Began
	}
	for _, dir := range newest.Monitors {
		path := filepath.Join(dir, rundir.MetricsFile)
		if !slices.ContainsFunc(w.tails, func(t *tail) bool { return t.path == path }) {
			w.tails = append(w.tails, &tail{path: path})
		}
	}
	return nil
}

// Update reads what the run has written since. If a newer stage has begun, it shows that one.
func (w *Watch) Update(now time.Time) error {
	if w.run.Update() == nil { // a run that somebody has removed stays as it was read
		_ = w.follow()
	}
	var records []trinity.Record
	for _, t := range w.tails {
		for {
			some, then, err := t.next()
			if err != nil {
				return err
			}
			if t.at = then; len(some) == 0 {
				break
			}
			records = append(records, some...)
		}
	}
	slices.SortStableFunc(records, func(a, b trinity.Record) int { return a.Time.Compare(b.Time) })
	for _, r := range records {
		if w.display.started.IsZero() {
			w.display.started = r.Time
		}
		w.display.add(r)
	}
	_, explores := w.display.latest[trinity.RoleExplorer]
	w.display.run.FromData = !explores
	traces := filepath.Join(w.job, rundir.Traces)
	var err error
	if w.spans == nil {
		w.spans, err = trace.BeforeNewest(traces)
	}
	spans, spansErr := behind(traces, &w.spans, trace.NextSpans)
	failures, failedErr := behind(traces, &w.failed, trace.NextFailures)
	for _, s := range spans {
		w.display.heard.span(trinity.Span{
			Role: s.Role, Kind: s.Kind, Name: s.Name, For: s.For, Step: s.Step,
			Begin: time.UnixMicro(s.Begin), End: time.UnixMicro(s.End),
		})
	}
	for _, f := range failures {
		w.display.heard.fail(trinity.FailedRollout{
			ID: trinity.ExperienceID{Step: f.Step, Task: f.Task, Run: f.Run}, Role: f.Role, Kind: f.Kind, Reason: f.Reason, Time: f.Time,
		})
	}
	w.damaged = cmp.Or(w.damaged, err, spansErr, failedErr)
	w.parts = nil // of an earlier version, or damaged
	if a, err := rundir.ReadAbout(filepath.Join(w.job, rundir.Monitor)); err == nil {
		w.parts = a.Parts
	}
	w.display.starts = w.parts[w.display.counts()].Starts
	w.display.now = time.Time{}
	if held, _ := rundir.IsHeld(w.job, w.parts); held { // else somebody may have removed the run
		w.display.now = now
	}
	return nil
}

// behind reads all that a trace has behind a position, and moves it. Of a damaged file it returns what comes before
// the damage.
func behind[T any](dir string, at *trace.Position, next func(string, trace.Position) (trace.Part[T], error)) (all []T, err error) {
	for {
		part, partErr := next(dir, *at)
		all, err = append(all, part.Lines...), cmp.Or(err, partErr)
		if maps.Equal(part.Then, *at) {
			return all, err
		}
		*at = part.Then
	}
}

// Alive reports whether a process did the run at the last Update.
func (w *Watch) Alive() bool { return !w.display.now.IsZero() }

// ending says how the run ended.
func (w *Watch) ending() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(w.parts)) {
		part := w.parts[name]
		text := name + " " + string(cmp.Or(part.Status, "killed"))
		if part.Error != "" {
			text += ": " + safetext.Printable(part.Error)
		}
		words = append(words, text)
	}
	if words == nil {
		return "no process does this run any more"
	}
	return strings.Join(words, "; ")
}

// waits says which parts of the run wait for whom since a while.
func (w *Watch) waits() (words []string) {
	for _, name := range slices.Sorted(maps.Keys(w.parts)) {
		if part := w.parts[name]; part.Status == "" && part.For != "" {
			words = append(words, safetext.Printable(name+" waits for "+part.For))
		}
	}
	return words
}

// Frame returns the bytes that make a terminal show the display in place of the last frame.
func (w *Watch) Frame(width, height int) []byte {
	return w.screen.frame(w.rows(width), width, height)
}

// Text returns the display as lines.
func (w *Watch) Text() string {
	const width = 160
	var b strings.Builder
	for _, r := range w.rows(width) {
		label, text := fit(r, width)
		b.WriteString(strings.TrimRight(label+text, " ") + "\n")
	}
	return b.String()
}

func (w *Watch) rows(width int) []row {
	rows := w.display.lines(width)
	if now := w.display.now; now.IsZero() {
		rows = append(rows, row{"ended", w.ending()})
	} else {
		if words := w.waits(); words != nil {
			rows = append(rows, row{"now", strings.Join(words, "; ")})
		}
		if words := w.display.heard.silent(now); words != nil {
			rows = append(rows, row{"silent", strings.Join(words, "; ")})
		}
	}
	if w.damaged != nil {
		text, _, _ := strings.Cut(w.damaged.Error(), "\n")
		rows = append(rows, row{"damaged", text})
	}
	return rows
}
