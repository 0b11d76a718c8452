// Package trace keeps on disk what happened in a run, and reads it again: who worked and who waited
// (spans), what the optimizer did to each token of some experiences (trained), and the rollouts that
// failed. docs/reference/traces.md describes the files.
//
// A trace is no part of a run's state. It may lack the end of a killed run, what did not fit on the
// disk, and what came faster than it could be written.
package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// Options configure a Writer.
type Options struct {
	Dir      string // of the traces
	FromStep int64  // the train step from which the run resumes: its first step removes those after this one
	Spans    bool   // keep spans
	Every    int64  // train steps from one whose tokens are kept to the next; 0 is 1
	MaxBytes int64  // of all files but the texts of tokens; the oldest are thinned out. 0 means no bound
	// Text returns the text of a token as people read it.
	Text func(token int32) string
	// Say receives lines for people: a trace that cannot be written, and what it lacks.
	Say func(line string)
}

// Writer is a [trinity.Tracer] that writes files. A goroutine of its own writes them; what does not
// fit into its queue is counted.
type Writer struct {
	opts    Options
	queue   chan any
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when the goroutine has ended

	waiting atomic.Int32 // train steps in the queue
	tokens  atomic.Int64 // of these
	lost    atomic.Int64 // spans, failures and train steps
	spans   lines
	failed  lines
	texts   *texts
	table   table
	first   map[string]int64 // the first step that a role did
	trains  bool             // the process has trained a step
	judges  map[string]bool  // the explorers whose evaluations the process has written
	trained int64            // bytes of train steps and evaluations, written since the last measure
	bytes   int64            // of the files at the last measure
	limit   int64            // of bytes, at which files are thinned out
	broken  bool             // a write failed: nothing is written any more
}

// The bounds of what waits to be written. More train steps than maxSteps wait only if they are small, as a
// fast run's are.
const (
	maxQueued = 1 << 14
	maxSteps  = 2
	maxTokens = 1 << 16
)

// flushAfter is how long a span may wait in memory, where a kill would lose it.
const flushAfter = 2 * time.Second

// New opens the traces of a process. It removes nothing: a run that resumes may still be refused.
func New(o Options) (*Writer, error) {
	if err := durable.MkdirAll(filepath.Join(o.Dir, trainedDir), 0o755); err != nil {
		return nil, err
	}
	process, err := newProcess(o.Dir)
	if err != nil {
		return nil, err
	}
	texts, err := openTexts(o.Dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		opts: o, first: map[string]int64{}, judges: map[string]bool{}, limit: o.MaxBytes, texts: texts,
		queue: make(chan any, maxQueued), closing: make(chan struct{}), ended: make(chan struct{}),
		spans:  lines{dir: o.Dir, prefix: spansPrefix, process: process, max: maxFile},
		failed: lines{dir: o.Dir, prefix: failedPrefix, process: process, max: maxFile},
	}
	if o.MaxBytes > 0 {
		w.spans.max = min(maxFile, o.MaxBytes/16)
		w.failed.max = w.spans.max
	}
	if err := w.measure(); err != nil {
		return nil, errors.Join(err, texts.close())
	}
	go w.run()
	return w, nil
}

// Span implements [trinity.Tracer].
func (w *Writer) Span(s trinity.Span) {
	if w.opts.Spans || s.Kind == trinity.SpanRollout {
		w.put(s)
	}
}

// Line keeps a span of a process that does not see the directory, in the form of [SpanOf].
func (w *Writer) Line(s Span) {
	if w.opts.Spans {
		w.put(s)
	}
}

// Failed implements [trinity.Tracer].
func (w *Writer) Failed(f trinity.FailedRollout) { w.put(f) }

// Trained implements [trinity.Tracer].
func (w *Writer) Trained(t trinity.Trained) {
	tokens := tokensOf(t)
	if steps, all := w.waiting.Add(1), w.tokens.Add(tokens); steps > maxSteps && all > maxTokens {
		w.lost.Add(1)
	} else if w.put(t) {
		return
	}
	w.handled(tokens)
}

// Evaluation keeps the answers of an evaluation that has ended.
func (w *Writer) Evaluation(e Evaluation) { w.put(e) }

// handled takes a train step of so many tokens out of what waits.
func (w *Writer) handled(tokens int64) {
	w.tokens.Add(-tokens)
	w.waiting.Add(-1)
}

func tokensOf(t trinity.Trained) (n int64) {
	for i := range t.Experiences {
		n += int64(len(t.Experiences[i].Tokens))
	}
	return n
}

// put reports whether there was room in the queue.
func (w *Writer) put(what any) bool {
	select {
	case w.queue <- what:
		return true
	default:
		w.lost.Add(1)
		return false
	}
}

// Close writes what is in the queue. What comes later, of a workflow that the run has abandoned, is
// never written.
func (w *Writer) Close() error {
	close(w.closing)
	<-w.ended
	if n := w.lost.Load(); n > 0 && !w.broken {
		w.opts.Say(fmt.Sprintf("the trace in %s lacks %d spans, failures or train steps, which came faster than they could be written",
			w.opts.Dir, n))
	}
	return nil
}

// run writes what comes through the queue.
func (w *Writer) run() {
	defer close(w.ended)
	var due <-chan time.Time // nil while nothing waits in memory
	for {
		select {
		case what := <-w.queue:
			w.try(func() error { return w.write(what) })
			if due == nil && len(w.spans.held)+len(w.failed.held) > 0 {
				due = time.After(flushAfter)
			}
		case <-due:
			due = nil
			w.try(func() error { return errors.Join(w.spans.flush(), w.failed.flush()) })
		case <-w.closing:
			for range len(w.queue) {
				what := <-w.queue
				w.try(func() error { return w.write(what) })
			}
			w.try(func() error { return errors.Join(w.spans.close(), w.failed.close(), w.texts.close()) })
			return
		}
	}
}

// try writes something, unless a write has failed before. A run must not fail by who watches it.
func (w *Writer) try(write func() error) {
	if w.broken {
		return
	}
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			w.broken = true
			w.opts.Say(fmt.Sprintf("the trace ends here, and the run goes on without it: %v", err))
		}
	}()
	err = write()
}

func (w *Writer) write(what any) error {
	switch v := what.(type) {
	case trinity.Span:
		if w.opts.Spans {
			return w.writeLine(SpanOf(v))
		}
		return w.begun(v.Role, v.Kind, v.Step, v.Begin)
	case Span:
		return w.writeLine(v)
	case trinity.FailedRollout:
		if err := w.texts.add(v.Prompt, w.opts.Text); err != nil {
			return err
		}
		return errors.Join(w.texts.add(v.Sampled, w.opts.Text), w.failed.add(failureOf(v)), w.thin())
	case trinity.Trained:
		defer w.handled(tokensOf(v))
		for i := range v.Experiences {
			if err := w.texts.add(v.Experiences[i].Tokens, w.opts.Text); err != nil {
				return err
			}
		}
		if !w.trains {
			if err := removeAfter(w.opts.Dir, w.opts.FromStep); err != nil {
				return err
			}
			w.trains = true
		}
		n, err := w.table.write(w.opts.Dir, v)
		w.trained += n
		return errors.Join(err, w.thin())
	case Evaluation:
		n, err := v.write(w.opts.Dir, !w.judges[v.Who])
		w.judges[v.Who] = true
		w.trained += n
		return errors.Join(err, w.thin())
	}
	panic(fmt.Sprintf("trace: %T", what))
}

func (w *Writer) writeLine(s Span) error {
	err := w.begun(s.Role, s.Kind, s.Step, time.UnixMicro(s.Begin))
	return errors.Join(err, w.spans.add(s), w.thin())
}

// begun notes among the failures the first step that a role does, so that a later reader knows which
// failures of earlier processes it did again.
func (w *Writer) begun(role string, kind trinity.SpanKind, step int64, at time.Time) error {
	if first, ok := w.first[role]; kind != trinity.SpanRollout || ok && first <= step {
		return nil
	}
	w.first[role] = step
	return w.failed.add(Failure{Role: role, Step: step, Time: at})
}

// thin removes files until the others fit into MaxBytes.
func (w *Writer) thin() error {
	if w.opts.MaxBytes <= 0 || w.bytes+w.trained+w.spans.written+w.failed.written <= w.limit {
		return nil
	}
	files, err := filesOf(w.opts.Dir)
	if err != nil {
		return err
	}
	for _, path := range files.over(w.opts.MaxBytes, max(1, w.opts.Every)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return w.measure()
}

// measure notes how many bytes the trace has. If what must stay is over MaxBytes, it looks again only
// after more has come.
func (w *Writer) measure() error {
	files, err := filesOf(w.opts.Dir)
	w.bytes = sum(files.trained) + sum(files.lines) + sum(files.evaluated)
	w.trained, w.spans.written, w.failed.written = 0, 0, 0
	w.limit = max(w.opts.MaxBytes, w.bytes+w.opts.MaxBytes/16)
	if w.bytes <= w.opts.MaxBytes {
		w.limit = w.opts.MaxBytes
	}
	return err
}
