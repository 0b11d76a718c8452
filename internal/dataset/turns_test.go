package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// rewriting is a renderer whose template rewrites earlier turns.
type rewriting struct{ letters }

func (r rewriting) RenderTraining(messages []trinity.Message, tools json.RawMessage, learn []bool) ([]int32, []bool, error) {
	first := slices.Index(learn, true)
	if slices.Contains(learn[first+1:], true) {
		return nil, nil, fmt.Errorf("1 of 2 turns: %w", trinity.ErrRewritesHistory)
	}
	return r.letters.RenderTraining(messages, tools, learn)
}

func TestTurnsOfDemonstrations(t *testing.T) {
	chat := func(first, last string) string {
		return `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"` + first + `},
			{"role": "user", "content": "c", "weight": 0}, {"role": "assistant", "content": "d"` + last + `}, {"role": "user", "content": "e"}]}`
	}
	const weight0, weight1 = `, "weight": 0`, `, "weight": 1`
	for _, c := range []struct {
		row      string
		all      bool
		rewrites bool
		want     string
	}{
		{chat("", ""), true, false, "user:a;assistant:[b;]user:c;assistant:[d;]"},
		{chat("", ""), true, true, "user:a;assistant:[b;] user:a;assistant:b;user:c;assistant:[d;]"},
		{chat("", ""), false, true, "user:a;assistant:b;user:c;assistant:[d;]"},
		{chat(weight0, ""), true, true, "user:a;assistant:b;user:c;assistant:[d;]"},
		{chat(weight0, weight1), false, false, "user:a;assistant:b;user:c;assistant:[d;]"},
		{chat(weight1, `, "weight": 0.0`), true, false, "user:a;assistant:[b;]"},
		{chat(`, "weight": null`, weight1), false, false, "user:a;assistant:b;user:c;assistant:[d;]"},
		{chat(weight1, ""), false, false, "messages[1] has weight 1, but only the assistant's last message is learnt: set " +
			"format.enable_concatenated_multi_turn: true"},
		{chat("", weight0), false, false, "the assistant's last message has weight 0"},
		{chat(weight0, weight0), true, false, "every message of the assistant has weight 0"},
		{chat(`, "weight": 0.5`, ""), true, false, "messages[1] has the weight 0.5: want 0 for a message that is not learnt, or 1"},
		{chat(`, "weight": "1"`, ""), true, false, `messages[1] has the weight "1": want 0`},
		{strings.Replace(chat("", ""), `"weight": 0`, `"weight": 1`, 1), true, false, "messages[2], of the user, has weight 1"},
	} {
		var r trinity.Renderer = letters{}
		if c.rewrites {
			r = rewriting{}
		}
		f, err := Formatter("sft", Format{TaskFormat: keys, AllTurns: c.all}, r)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := decodeRow([]byte(c.row))
		if err != nil {
			t.Fatal(err)
		}
		exps, err := f.Format(fields)
		var got []string
		for _, e := range exps {
			got = append(got, learnt(e))
		}
		if strings.Join(got, " ") != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, all turns %v, rewrites %v: %q, %v, want %q", c.row, c.all, c.rewrites, got, err, c.want)
		}
	}
}

// A row that gives several experiences may begin in one batch and end in the next.
func TestSourceOfTurns(t *testing.T) {
	const row = `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "1"}, {"role": "user", "content": "q"},
		{"role": "assistant", "content": "2"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "3"}]}`
	rows := strings.ReplaceAll(row, "\n", "") + "\n" +
		`{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "4"}]}` + "\n"
	path := filepath.Join(write(t, map[string]string{"sft.jsonl": rows}), "sft.jsonl")
	open := func(epochs int) *Source {
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Formatter("sft", Format{TaskFormat: keys, AllTurns: true}, rewriting{})
		if err != nil {
			t.Fatal(err)
		}
		sel := &trinitytest.InOrder{}
		if err := sel.Start(d); err != nil {
			t.Fatal(err)
		}
		return NewSource(d, sel, f, epochs)
	}
	groups, err := NewGroups(t.Context(), open(0).data, open(0).format)
	if err != nil || groups.Len() != 2 || groups.Largest() != 1 {
		t.Fatalf("%d groups, the largest of %d rollouts, %v", groups.Len(), groups.Largest(), err)
	}
	group, _, err := groups.Group(0)
	if err != nil || len(group) != 3 || group[2].ID.Turn != 2 {
		t.Errorf("the first row's group: %v, %v, want 3 turns", group, err)
	}
	for n, want := range map[int][]string{
		1: {"1", "2", "3", "4", "1", "2", "3", "4"}, 2: {"12", "34", "12", "34"}, 3: {"123", "412", "34"}, 5: {"12341", "234"},
	} {
		s := open(2)
		if err := s.Check(t.Context(), s.Total(), n); err != nil || s.Total() != 8 {
			t.Errorf("batches of %d: %v, a total of %d, want 8", n, err, s.Total())
		}
		var got []string
		for {
			exps, err := trinitytest.Take(t.Context(), s, n, 0)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			answers, ids := "", map[string]bool{}
			for _, e := range exps {
				answers += e.Response
				ids[e.ID.String()] = true
			}
			if got = append(got, answers); len(ids) != len(exps) {
				t.Errorf("a batch of %d has the ids %v", len(exps), ids)
			}
			state, err := s.State()
			if err != nil {
				t.Fatal(err)
			}
			s = open(2)
			if err := s.Restore(state); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("batches of %d: %v, want %v", n, got, want)
		}
	}
}
