package record

import (
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/trace"
)

// KeepAnswers gets the answers to a task of an evaluation, and why rollouts failed.
type KeepAnswers func([]trace.Evaluated) error

// Evaluator returns the explorer's side of the log in an evaluation of which no trace is kept. keep may be nil.
func (l *Log) Evaluator(keep KeepAnswers) explorer.Recorder {
	return evaluator{l.Explorer(), keep, l.tokens}
}

// evaluator hands the answers of an evaluation over as they come.
type evaluator struct {
	explorer.Recorder
	keep   KeepAnswers
	tokens trace.Tokens
}

// Answered implements [explorer.Answers].
func (v evaluator) Answered(step int64, task *trinity.Task, group trinity.Group, failed []error) error {
	if v.keep == nil {
		return nil
	}
	return v.keep(trace.EvaluatedOf(step, task, group, failed, v.tokens))
}

// Evaluated implements [explorer.Answers].
func (v evaluator) Evaluated(int64) error { return nil }

// evaluation is the answers of the evaluation that goes on.
type evaluation struct {
	mu   sync.Mutex
	rows []trace.Evaluated
}

// Answered implements [explorer.Answers] for the trace.
func (e *explorerSide) Answered(step int64, task *trinity.Task, group trinity.Group, failed []error) error {
	if e.log.trace == nil {
		return nil
	}
	e.log.tell(toFiles, e.log.trace, func() {
		rows := trace.EvaluatedOf(step, task, group, failed, e.log.tokens)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.rows = append(e.rows, rows...)
	})
	return nil
}

// Evaluated implements [explorer.Answers].
func (e *explorerSide) Evaluated(step int64) error {
	if e.log.trace == nil {
		return nil
	}
	who := trace.OfRun
	switch {
	case e.log.cfg.Mode == "bench":
		who = trace.OfBench
	case e.log.cfg.Explorer.Name != config.OnlyExplorer:
		who = e.log.cfg.Explorer.Name
	}
	e.mu.Lock()
	rows := e.rows
	e.rows = nil
	e.mu.Unlock()
	e.log.tell(toFiles, e.log.trace, func() { e.log.trace.Evaluation(trace.Evaluation{Who: who, Step: step, Rows: rows}) })
	return nil
}
