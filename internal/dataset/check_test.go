package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/selector"
	"github.com/trinity-go/trinity/trinitytest"
)

// drawing is a selector that repeats an order of its own.
type drawing struct {
	selector.Selector
	order []int
	next  int
}

func (d *drawing) Next(n int) (rows []int, err error) {
	for range n {
		rows = append(rows, d.order[d.next%len(d.order)])
		d.next++
	}
	return rows, nil
}

func (d *drawing) State() (json.RawMessage, error) { return json.Marshal(d.next) }

func (d *drawing) Restore(state json.RawMessage) error { return json.Unmarshal(state, &d.next) }

// checked returns a source of texts with a limit of 4 tokens. It notes which rows are formatted. A
// text of one letter is an error.
func checked(t *testing.T, schema string, order []int, texts ...string) (s *Source, looked *[]string) {
	t.Helper()
	var lines strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&lines, "{\"prompt\": %q, \"chosen\": %q, \"rejected\": \"r\"}\n", text, text)
	}
	d, err := Open(t.Context(), filepath.Join(write(t, map[string]string{"texts.jsonl": lines.String()}), "texts.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Formatter(schema, Format{TaskFormat: preferenceKeys, PromptType: "plaintext", MaxTokens: map[string]int{"cpt": 4}[schema]},
		letters{})
	if err != nil {
		t.Fatal(err)
	}
	looked = &[]string{}
	format := f.Format
	f.Format = func(row map[string]any) ([]*trinity.Experience, error) {
		*looked = append(*looked, row["prompt"].(string))
		return format(row)
	}
	return NewSource(d, &drawing{order: order}, f, 0), looked
}

func TestCheckFormatsEachRowOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		schema  string
		order   []int
		n, size int
		want    string // what is formatted, in order
	}{
		{"every row", "cpt", []int{2, 1, 0, 3}, 0, 1, "aa bb cc dd"},
		{"until every row was looked at", "cpt", []int{2, 1, 0, 3}, 1000, 1, "aa cc bb dd"},
		{"what the run reads, and the first row before it", "cpt", []int{2, 1, 0, 3}, 2, 1, "aa cc bb"},
		{"whole batches", "cpt", []int{2, 1, 0, 3}, 3, 2, "aa cc bb dd"},
		{"a row that comes again counts again", "cpt", []int{2, 2, 2, 1}, 3, 1, "aa cc"},
		{"no row that does not come", "cpt", []int{2, 1}, 100, 2, "aa cc bb"},
		{"pairs", "dpo", []int{2, 1, 0, 3}, 4, 4, "aa cc bb"},
	} {
		s, looked := checked(t, c.schema, c.order, "aa", "bb", "cc", "dd")
		if err := s.Check(t.Context(), c.n, c.size); err != nil || strings.Join(*looked, " ") != c.want {
			t.Errorf("%s: looked at %v, %v; want %s", c.name, *looked, err, c.want)
		}
		if rows, _ := s.sel.Next(2); !slices.Equal(rows, c.order[:2]) {
			t.Errorf("%s: the source begins with rows %v then", c.name, rows)
		}
	}
}

func TestCheckOfPackedTexts(t *testing.T) {
	for n, want := range map[int]string{0: "aa bbb c2 dd", 1: "aa bbb", 2: "aa bbb c2", 9: "aa bbb c2 dd"} {
		s, looked := checked(t, "cpt", []int{1, 2, 0, 3}, "aa", "bbb", "c2", "dd") // with their ends 3, 4, 3 and 3 tokens
		p := &Packed{Rows: s, Length: 4, End: '.'}
		if err := p.Check(t.Context(), n); err != nil || strings.Join(*looked, " ") != want {
			t.Errorf("%d sequences: looked at %v, %v; want %s", n, *looked, err, want)
		}
	}
}

func TestCheckErrors(t *testing.T) {
	const advice = "more than model.max_model_len 4: raise it, remove the row, or set format.truncate: true to learn from the first 4 tokens"
	for _, c := range []struct {
		texts []string
		want  string
	}{
		{[]string{"aa", "bb", "toolong"}, "texts.jsonl:3: 7 tokens, " + advice},
		{[]string{"aa", "fives", "toolong", "longest!!"},
			"texts.jsonl:2: 5 tokens, " + advice + "; so it is with 3 of 4 rows, the longest has 9 tokens"},
		{[]string{"aa", "fives", "c"}, "texts.jsonl:3: prompt has 1 tokens"},
		{[]string{"a", "fives"}, "texts.jsonl:1: prompt has 1 tokens"},
	} {
		order := make([]int, len(c.texts)) // the last first
		for i := range order {
			order[i] = len(order) - 1 - i
		}
		s, _ := checked(t, "cpt", order, c.texts...)
		err := s.Check(t.Context(), 100, 1)
		if err == nil || !strings.HasSuffix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want+",") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %s", c.texts, err, c.want)
		}
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if s, _ := checked(t, "cpt", []int{0, 1}, "aa", "bb"); !errors.Is(s.Check(ctx, 0, 1), stop) {
		t.Error("a check goes on after a stop")
	}
	empty, err := Open(t.Context(), filepath.Join(write(t, map[string]string{"empty.jsonl": ""}), "empty.jsonl"), Options{})
	if err == nil {
		err = NewSource(empty, &trinitytest.InOrder{}, RowFormatter{PerRow: 1}, 1).Check(t.Context(), 0, 1)
	}
	if err == nil || !strings.Contains(err.Error(), "no rows") {
		t.Errorf("an empty file: %v", err)
	}
}
