package trinitytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// TaskOperator checks the contract of operators of the task pipeline that drop and score rows and
// add none. build returns a new, equal operator with its tools each time. Rows have the fields
// text, question, answer and level.
func TaskOperator(t *testing.T, build func() trinity.TaskOperator) {
	want := passRows(t, build(), len(taskRows()))
	t.Run("blocks", func(t *testing.T) {
		for _, size := range []int{1, 2, 3} {
			if got := passRows(t, build(), size); got != want {
				t.Errorf("in blocks of %d rows the operator gives\n%s\nand in one block\n%s", size, got, want)
			}
		}
	})
	t.Run("no rows", func(t *testing.T) {
		if kept, err := build().Process(t.Context(), nil); err != nil || len(kept) > 0 {
			t.Errorf("without rows it returns %d rows, %v", len(kept), err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := build().Process(ctx, taskRows()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// passRows describes the rows that remain if the operator gets them in blocks.
func passRows(t *testing.T, op trinity.TaskOperator, size int) string {
	t.Helper()
	var out strings.Builder
	for block := range slices.Chunk(taskRows(), size) {
		before := slices.Clone(block)
		kept, err := op.Process(t.Context(), block)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range kept {
			i := slices.Index(before, r)
			if i < 0 {
				t.Fatalf("%s is in the wrong place, occurs twice, or was not in the input", r.Where)
			}
			before = before[i+1:]
			text, err := json.Marshal(r) // NaN and Inf are errors
			if err != nil {
				t.Fatalf("%s: %v", r.Where, err)
			}
			fmt.Fprintf(&out, "%s\n", text)
		}
	}
	return out.String()
}

// line is the number of a row.
type line int

func (l line) String() string { return fmt.Sprintf("rows.jsonl:%d", int(l)) }

func taskRows() []*trinity.TaskRow {
	var rows []*trinity.TaskRow
	for i, text := range []string{
		"Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning. How many are left?",
		"",
		"janet's ducks lay 16 eggs per day. She eats three for breakfast every morning. How many are left?",
		"Как много яиц остаётся? 鸭子每天下十六个蛋。",
		"ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha",
		"x",
		"\n\t\n!!! ??? \x00 \u2028 é 🦆",
		"Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning. How many are left?",
	} {
		rows = append(rows, &trinity.TaskRow{
			Row:   map[string]any{"text": text, "question": text, "answer": "13", "level": int64(i % 3)},
			Stats: map[string]any{}, Where: line(i + 1),
		})
	}
	return rows
}
