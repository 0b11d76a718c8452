package dataset

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// line returns the JSON of a recorded experience whose second token is its number.
func line(number, step int, task string, run, turn int) string {
	return fmt.Sprintf(`{"id": {"step": %d, "task": %q, "run": %d, "turn": %d}, "tokens": [1, %d], "mask": [false, true], "prompt_len": 1}`+"\n", step, task, run, turn, number)
}

func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name    string
		rows    []string
		want    []string // the row of each group, and the last tokens of its experiences
		largest int
	}{
		{"tasks and steps", []string{line(0, 1, "a", 0, 0), line(1, 1, "a", 1, 0), line(2, 1, "b", 0, 0), line(3, 2, "b", 0, 0)},
			[]string{"0 [0 1]", "2 [2]", "3 [3]"}, 2},
		{"turns, in order", []string{line(0, 1, "a", 1, 0), line(1, 1, "a", 0, 1), line(2, 1, "a", 0, 0)}, []string{"0 [2 1 0]"}, 2},
		{"a rollout twice is of another group",
			[]string{line(0, 1, "a", 0, 0), line(1, 1, "a", 1, 0), line(2, 1, "a", 0, 0), line(3, 1, "a", 1, 0)}, []string{"0 [0 1]", "2 [2 3]"}, 2},
		{"without a task", []string{line(0, 0, "", 0, 0), line(1, 0, "", 1, 0)}, []string{"0 [0]", "1 [1]"}, 1},
	} {
		d, err := Open(t.Context(), filepath.Join(write(t, map[string]string{"kept.jsonl": strings.Join(c.rows, "")}), "kept.jsonl"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Formatter("experience", Format{}, letters{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := NewGroups(t.Context(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range g.Len() {
			group, row, err := g.Group(i)
			if err != nil {
				t.Fatal(err)
			}
			var tokens []int32
			for _, e := range group {
				tokens = append(tokens, e.Tokens[1])
			}
			got = append(got, fmt.Sprint(row, " ", tokens))
			if first, err := g.Row(i); err != nil || fmt.Sprint(first["tokens"]) != fmt.Sprintf("[1 %d]", row) {
				t.Errorf("%s: the first row of group %d is %v, %v", c.name, i, first, err)
			}
			group[0].ID.Task = "changed"
			if again, _, _ := g.Group(i); again[0].ID.Task == "changed" {
				t.Errorf("%s: group %d is not made anew", c.name, i)
			}
		}
		if !slices.Equal(got, c.want) || g.Largest() != c.largest {
			t.Errorf("%s: got %q, of %d rollouts at most; want %q, %d", c.name, got, g.Largest(), c.want, c.largest)
		}
	}
}

// NewGroups reads every row before Group returns the first.
func TestGroupsOfWrongRows(t *testing.T) {
	for rows, want := range map[string]string{
		line(0, 1, "a", 0, 0) + "{}\n": "kept.jsonl:2: not an experience: it has no tokens",
		"":                             "has no rows",
		line(0, 1, "a", 0, 0) + line(1, 1, "", 0, 0): "kept.jsonl:2: tokens of 1",
	} {
		d, err := Open(t.Context(), filepath.Join(write(t, map[string]string{"kept.jsonl": rows}), "kept.jsonl"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Formatter("experience", Format{}, letters{})
		if err != nil {
			t.Fatal(err)
		}
		all := f.Format
		f.Format = func(row map[string]any) ([]*trinity.Experience, error) {
			exps, err := all(row)
			if err == nil && exps[0].Tokens[1] == 1 {
				err = fmt.Errorf("tokens of 1")
			}
			return exps, err
		}
		if _, err := NewGroups(t.Context(), d, f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
