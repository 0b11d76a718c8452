package monitor

import (
	"context"
	"maps"
	"path/filepath"

	"github.com/trinity-go/trinity/trace"
)

// Spans is a Sink that also gets the spans of the run's trace.
type Spans interface {
	Sink
	// TakesSpans reports whether the service takes spans. It may turn out that it takes none.
	TakesSpans() bool
	// SendSpans sends some spans of a process. After an error the service may have them; they then come
	// again, perhaps with more behind them.
	SendSpans(ctx context.Context, part trace.Part) error
}

// traceDir returns the directory of the run's trace.
func (r *Run) traceDir() string { return filepath.Join(filepath.Dir(r.Dir), trace.Dir) }

// nextSpans returns the next spans for the sink, and whether there is anything behind its position. It
// says what is damaged, which the sink never gets.
func (f *Follower) nextSpans() (part trace.Part, more bool, err error) {
	part, err = trace.NextSpans(f.run.traceDir(), f.tail.at.Spans)
	more = !maps.Equal(part.Then, f.tail.at.Spans)
	if err != nil && more {
		f.say("%v: the sink gets no more of this file", err)
		err = nil
	}
	return part, more, err
}

// sendSpans sends the spans that are in the trace.
func (f *Follower) sendSpans(ctx context.Context) error {
	sink, ok := f.sink.(Spans)
	for ok && sink.TakesSpans() {
		part, more, err := f.nextSpans()
		if err != nil || !more {
			return err
		}
		if len(part.Spans) > 0 {
			if err := sink.SendSpans(ctx, part); err != nil {
				return err
			}
		}
		if !sink.TakesSpans() { // trinity sync may send them later
			return nil
		}
		at := f.tail.at
		at.Spans = part.Then
		if err := f.tail.keep(at); err != nil {
			return err
		}
	}
	return nil
}

// hasAll reports whether the sink has everything of the run.
func (f *Follower) hasAll() (bool, error) {
	records, _, err := f.tail.next()
	if err != nil || len(records) > 0 || f.tail.at.Status != "" && !f.tail.at.Told {
		return false, err
	}
	if sink, ok := f.sink.(Spans); ok && sink.TakesSpans() {
		_, more, err := f.nextSpans()
		return !more, err
	}
	return true, nil
}
