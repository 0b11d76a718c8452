package trinity

import (
	"context"
	"fmt"
)

// TaskRow is a row on its way into a taskset, with the measurements of operators.
type TaskRow struct {
	Row   map[string]any
	Stats map[string]any // by Data-Juicer's names, such as text_len and llm_difficulty_score
	Where fmt.Stringer   // file and line, for errors
}

// TaskOperator filters, scores or edits the rows of a taskset before the run. Process gets the rows
// in blocks, in the order of the inputs, and returns the rows that it keeps, in order. It may
// remember earlier blocks, as a deduplicator does, but its results must not depend on where a block
// ends. Two methods are optional:
//
//	UseTools(rows.Tools) // gives an operator its tools before the first Process, see operator/rows
//	Finish()             // is called once, after the last row
type TaskOperator interface {
	Process(ctx context.Context, rows []*TaskRow) (kept []*TaskRow, err error)
}
