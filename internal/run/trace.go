package run

import (
	"fmt"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/monitor"
)

// tracer tells the trace of a stage. It holds the stage, which opens its trace with its log, after it
// has made the options of its loops. Explorers that have names of their own are roles of their own.
type tracer struct{ *stage }

// tracerOf returns the tracer of a stage, nil if it keeps nothing.
func tracerOf(s *stage) trinity.Tracer {
	if traceMemory(s.Settled.Settled) == 0 {
		return nil
	}
	return tracer{s}
}

// traceMemory returns the bytes of a stage's trace, measured as those of the process; 0 if it keeps none.
func traceMemory(cfg *config.Settled) int64 {
	if cfg.Monitor.Trace.Spans || cfg.Monitor.Trace.Tokens != "off" {
		return 6 << 20
	}
	return 0
}

// named returns a role with the explorer's own name.
func (t tracer) named(role string) string {
	if role == trinity.RoleTrainer {
		return role
	}
	return config.ExplorerRole(role, t.Explorer.Name)
}

// writer returns the trace, nil before it is open and if there is no place for it.
func (t tracer) writer() *trace.Writer {
	if t.log == nil {
		return nil
	}
	return t.log.trace
}

// Span implements [trinity.Tracer].
func (t tracer) Span(s trinity.Span) {
	if t.joined != nil && t.Monitor.Trace.Spans {
		t.tell(toTrainer, t.joined, func() { t.joined.Span(s) })
	}
	s.Role = t.named(s.Role)
	if w := t.writer(); w != nil {
		t.tell(toFiles, w, func() { w.Span(s) })
	}
	t.witness(func(w monitor.Witness) { w.Span(s) })
}

// Trained implements [trinity.Tracer].
func (t tracer) Trained(s trinity.Trained) {
	if w := t.writer(); w != nil {
		t.tell(toFiles, w, func() { w.Trained(s) })
	}
}

// Failed implements [trinity.Tracer].
func (t tracer) Failed(f trinity.FailedRollout) {
	f.Role = t.named(f.Role)
	if w := t.writer(); w != nil {
		t.tell(toFiles, w, func() { w.Failed(f) })
	}
	t.witness(func(w monitor.Witness) { w.Failed(f) })
}

// witness tells the monitors that show what happens within a step.
func (t tracer) witness(tell func(monitor.Witness)) {
	if t.log == nil {
		return
	}
	for i, m := range t.log.monitors {
		if w, ok := m.(monitor.Witness); ok {
			t.tell(i, w, func() { tell(w) })
		}
	}
}

// Those whom a tracer tells, beside monitors, which have their places in the list of them.
const (
	toFiles   = -1
	toTrainer = -2
)

// tell calls one of those who watch the run, in the run's goroutine. A run must not fail by who watches
// it: one that has panicked is called no more.
func (t tracer) tell(number int, who any, call func()) {
	if _, broken := t.broken.Load(number); broken {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			if _, said := t.broken.LoadOrStore(number, true); !said {
				t.say(fmt.Sprintf("the run goes on, and no longer tells %T what happens: panic: %v", who, p))
			}
		}
	}()
	call()
}

// openTrace returns the writer of the stage's traces; nil if it keeps none, or if there is no place
// for them.
func openTrace(s *stage, fromStep int64) *trace.Writer {
	if traceMemory(s.Settled.Settled) == 0 {
		return nil
	}
	w, err := newTrace(s, fromStep)
	if err != nil {
		s.say(fmt.Sprintf("the run goes on without its trace: %v", err))
		return nil
	}
	return w
}

// newTrace begins files of a process in the directory of the stage's traces.
func newTrace(s *stage, fromStep int64) (*trace.Writer, error) {
	o := &s.Monitor.Trace
	return trace.New(trace.Options{
		Dir: filepath.Join(s.CheckpointJobDir, trace.Dir), FromStep: fromStep, Spans: o.Spans, Every: int64(o.Every),
		MaxBytes: int64(o.MaxGb * 1e9), Text: s.text.Tokenizer().Text, Say: s.say,
	})
}

// laneOf returns what opens a trace for explorers that do not see the stage's directory; nil if the stage
// keeps no spans.
func laneOf(s *stage) func() (fleet.Lane, error) {
	if !s.Monitor.Trace.Spans {
		return nil
	}
	return func() (fleet.Lane, error) { return newTrace(s, 0) }
}

// tracing returns what the trainer tells.
func tracing(s *stage) trainer.Tracing {
	o := &s.Monitor.Trace
	t := trainer.Tracing{Tracer: tracerOf(s), Groups: o.GroupsPerStep, Every: int64(o.Every), Seed: uint64(s.Seed)}
	switch o.Tokens {
	case "all":
		t.Groups = -1
	case "off":
		t.Groups = 0
	}
	return t
}
