package record

import (
	"fmt"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/monitor"
)

// Tracer returns what tells the trace of the stage, nil if it keeps nothing.
func (l *Log) Tracer() trinity.Tracer {
	if place.TraceMemory(l.cfg) == 0 {
		return nil
	}
	return l
}

// named returns a role with the explorer's own name. Explorers that have names of their own are roles of their own.
func (l *Log) named(role string) string {
	if role == trinity.RoleTrainer {
		return role
	}
	return config.ExplorerRole(role, l.cfg.Explorer.Name)
}

// Span implements [trinity.Tracer].
func (l *Log) Span(s trinity.Span) {
	if l.joined != nil && l.cfg.Monitor.Trace.Spans {
		l.tell(toTrainer, l.joined, func() { l.joined.Span(s) })
	}
	s.Role = l.named(s.Role)
	if l.trace != nil {
		l.tell(toFiles, l.trace, func() { l.trace.Span(s) })
	}
	l.witness(func(w monitor.Witness) { w.Span(s) })
}

// Trained implements [trinity.Tracer].
func (l *Log) Trained(s trinity.Trained) {
	if l.trace != nil {
		l.tell(toFiles, l.trace, func() { l.trace.Trained(s) })
	}
}

// Failed implements [trinity.Tracer].
func (l *Log) Failed(f trinity.FailedRollout) {
	f.Role = l.named(f.Role)
	if l.trace != nil {
		l.tell(toFiles, l.trace, func() { l.trace.Failed(f) })
	}
	l.witness(func(w monitor.Witness) { w.Failed(f) })
}

// witness tells the monitors that show what happens within a step.
func (l *Log) witness(tell func(monitor.Witness)) {
	if !l.began {
		return
	}
	for i, m := range l.monitors {
		if w, ok := m.(monitor.Witness); ok {
			l.tell(i, w, func() { tell(w) })
		}
	}
}

// Those whom a log tells, beside monitors, which have their places in the list of them.
const (
	toFiles   = -1
	toTrainer = -2
)

// tell calls one of those who watch the run, in the run's goroutine. A run must not fail by who watches
// it: one that has panicked is called no more.
func (l *Log) tell(number int, who any, call func()) {
	if _, broken := l.broken.Load(number); broken {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			if _, said := l.broken.LoadOrStore(number, true); !said {
				l.Say(fmt.Sprintf("the run goes on, and no longer tells %T what happens: panic: %v", who, p))
			}
		}
	}()
	call()
}

// openTrace returns the writer of the stage's traces; nil if it keeps none, or if there is no place
// for them.
func (l *Log) openTrace(fromStep int64) *trace.Writer {
	if place.TraceMemory(l.cfg) == 0 {
		return nil
	}
	w, err := l.NewTrace(fromStep)
	if err != nil {
		l.Say(fmt.Sprintf("the run goes on without its trace: %v", err))
		return nil
	}
	return w
}

// NewTrace begins files of a process in the directory of the stage's traces.
func (l *Log) NewTrace(fromStep int64) (*trace.Writer, error) {
	o := &l.cfg.Monitor.Trace
	return trace.New(trace.Options{
		Dir: filepath.Join(l.cfg.CheckpointJobDir, trace.Dir), FromStep: fromStep, Spans: o.Spans, Every: int64(o.Every),
		MaxBytes: int64(o.MaxGb * 1e9), Text: l.text, Say: l.Say,
	})
}

// Tracing returns what the trainer tells.
func (l *Log) Tracing() trainer.Tracing {
	o := &l.cfg.Monitor.Trace
	t := trainer.Tracing{Tracer: l.Tracer(), Groups: o.GroupsPerStep, Every: int64(o.Every), Seed: uint64(l.cfg.Seed)}
	switch o.Tokens {
	case "all":
		t.Groups = -1
	case "off":
		t.Groups = 0
	}
	return t
}
