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

// TaskOperator holds operators of the task pipeline to what every one must do that drops and scores rows and makes none. build makes a new, equal operator
// each time, with its tools. Rows have the fields text, question, answer and level.
func TaskOperator(t *testing.T, build func() trinity.TaskOperator) {
	want := passRows(t, build(), len(taskRows()))
	t.Run("blocks", func(t *testing.T) {
		for _, size := range []int{1, 2, 3} {
			if got := passRows(t, build(), size); got != want {
				t.Errorf("in blocks of %d rows it gives\n%s\nand in one block\n%s", size, got, want)
			}
		}
	})
	t.Run("no rows", func(t *testing.T) {
		if kept, err := build().Process(t.Context(), nil); err != nil || len(kept) > 0 {
			t.Errorf("of no rows it makes %d, %v", len(kept), err)
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

// passRows describes what is left of the rows, given in blocks.
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
				t.Fatalf("%s came out of its place, twice, or never went in", r.Where)
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

// line is where a row stands.
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
