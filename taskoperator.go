package trinity

import (
	"context"
	"fmt"
)

// TaskRow is a row on its way into a taskset, and what operators have measured of it.
type TaskRow struct {
	Row   map[string]any
	Stats map[string]any // by Data-Juicer's names, such as text_len and llm_difficulty_score
	Where fmt.Stringer   // file and line, for errors
}

// TaskOperator filters, scores or edits the rows of a taskset before the run. Process gets them in blocks, in the order of the inputs, and returns those
// that are kept, in order. It may remember the blocks before, as a deduplicator does; what it does must not depend on where one ends.
type TaskOperator interface {
	Process(ctx context.Context, rows []*TaskRow) (kept []*TaskRow, err error)
}

// TaskTools are what the task pipeline gives to an operator that asks others, such as a model.
type TaskTools struct {
	Answers  AnswerStore
	Parallel int          // questions at once, at least 1
	Say      func(string) // for people
}

// AnswerStore keeps answers that cost something, so that nobody asks twice. It is safe for concurrent use.
type AnswerStore interface {
	// Answer returns what was put under the key, ok false if nothing was.
	Answer(key string) (answer []byte, ok bool, err error)
	// Put keeps an answer; it is on the disk when Put returns.
	Put(key string, answer []byte) error
}

// TaskToolUser is a TaskOperator that needs tools. UseTools is called once, before Process.
type TaskToolUser interface {
	TaskOperator
	UseTools(TaskTools)
}

// TaskFinisher is a TaskOperator with something to do after the last row. Finish is called once, when all have passed.
type TaskFinisher interface {
	TaskOperator
	Finish()
}
