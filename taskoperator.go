package trinity

import (
	"context"
	"fmt"
)

// TaskRow is a row on its way into a taskset, with what operators have measured of it.
type TaskRow struct {
	Row   map[string]any
	Stats map[string]any // by Data-Juicer's names, such as text_len and llm_difficulty_score
	Where fmt.Stringer   // file and line, for errors
}

// TaskOperator filters, scores or edits the rows of a taskset before the run. Process gets the rows in blocks, in the order of
// the inputs, and returns those that it keeps, in order. It may remember earlier blocks, as a deduplicator does, but its results
// must not depend on where a block ends. Two methods are optional:
//
//	UseTools(TaskTools) // gives an operator its tools before the first Process
//	Finish()            // is called once, after the last row
type TaskOperator interface {
	Process(ctx context.Context, rows []*TaskRow) (kept []*TaskRow, err error)
}

// TaskTools are what the task pipeline gives to an operator that asks others, such as a model.
type TaskTools struct {
	Answers  AnswerStore
	Parallel int          // concurrent questions, at least 1
	Say      func(string) // prints a line for people
}

// AnswerStore keeps answers that cost something, so that nobody asks twice. It is safe for concurrent use.
type AnswerStore interface {
	// Answer returns the answer that was put under the key; ok is false if there is none.
	Answer(key string) (answer []byte, ok bool, err error)
	// Put keeps an answer; the answer is on disk when Put returns.
	Put(key string, answer []byte) error
}
