package run

import (
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trace"
	"github.com/trinity-go/trinity/trainer"
)

// tracer tells the trace of a stage. It holds the stage, which opens its trace with its log, after it
// has made the options of its loops.
type tracer struct{ *stage }

// Span implements [trinity.Tracer].
func (t tracer) Span(s trinity.Span) {
	if t.log != nil && t.log.trace != nil {
		t.log.trace.Span(s)
	}
}

// Trained implements [trinity.Tracer].
func (t tracer) Trained(s trinity.Trained) {
	if t.log != nil && t.log.trace != nil {
		t.log.trace.Trained(s)
	}
}

// Failed implements [trinity.Tracer].
func (t tracer) Failed(f trinity.FailedRollout) {
	if t.log != nil && t.log.trace != nil {
		t.log.trace.Failed(f)
	}
}

// openTrace returns the writer of the stage's traces; nil if it keeps none.
func openTrace(s *stage, fromStep int64) (*trace.Writer, error) {
	o := &s.Monitor.Trace
	if !o.Spans && o.Tokens == "off" {
		return nil, nil
	}
	return trace.New(trace.Options{
		Dir: filepath.Join(s.CheckpointJobDir, trace.Dir), FromStep: fromStep, Trains: s.Trains, Spans: o.Spans,
		MaxBytes: int64(o.MaxGb * 1e9), Text: s.text.Tokenizer().Text, Say: s.say,
	})
}

// tracing returns what the trainer tells.
func tracing(s *stage) trainer.Tracing {
	o := &s.Monitor.Trace
	t := trainer.Tracing{Tracer: tracer{s}, Groups: o.GroupsPerStep, Every: int64(o.Every), Seed: uint64(s.Seed)}
	switch o.Tokens {
	case "all":
		t.Groups = -1
	case "off":
		t.Groups = 0
	}
	return t
}
