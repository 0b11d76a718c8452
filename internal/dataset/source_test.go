package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func newSource(t *testing.T, rows, epochs int) *Source {
	t.Helper()
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, "{\"prompt\": \"%d\", \"response\": \"r\"}\n", i)
	}
	d, err := Open(t.Context(), filepath.Join(write(t, map[string]string{"sft.jsonl": text.String()}), "sft.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Formatter("sft", Format{TaskFormat: keys, PromptType: "plaintext"}, letters{})
	if err != nil {
		t.Fatal(err)
	}
	sel := &trinitytest.InOrder{}
	if err := sel.Start(d); err != nil {
		t.Fatal(err)
	}
	return NewSource(d, sel, f, epochs)
}

// takeAll takes batches of n until the end.
func takeAll(t *testing.T, s *Source, n int) (ids []string, sizes []int) {
	t.Helper()
	for {
		exps, err := trinitytest.Take(t.Context(), s, n, 0)
		if errors.Is(err, io.EOF) {
			return ids, sizes
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(exps))
		for _, e := range exps {
			ids = append(ids, e.ID.String())
		}
	}
}

func TestSourceGivesWholeEpochs(t *testing.T) {
	s := newSource(t, 5, 3)
	ids, sizes := takeAll(t, s, 4)
	if s.Total() != 15 || fmt.Sprint(sizes) != "[4 4 4 3]" {
		t.Errorf("total %d, batches of %v", s.Total(), sizes)
	}
	if want := "1/sft/0/0/0 1/sft/1/0/0 1/sft/2/0/0 1/sft/3/0/0 2/sft/4/0/0 2/sft/0/0/0"; strings.Join(ids[:6], " ") != want {
		t.Errorf("ids %v, want %s", ids[:6], want)
	}
	if ids, _ := takeAll(t, newSource(t, 2, 2), 4); strings.Join(ids, " ") != "1/sft/0/0/0 1/sft/1/0/0 1/sft/0/1/0 1/sft/1/1/0" {
		t.Errorf("a batch over two epochs has ids %v", ids)
	}
}

func TestSourceWithoutEnd(t *testing.T) {
	s := newSource(t, 2, 0)
	for range 10 {
		if exps, err := trinitytest.Take(t.Context(), s, 3, 0); err != nil || len(exps) != 3 {
			t.Fatalf("%d experiences, %v", len(exps), err)
		}
	}
	if s.Total() != 0 {
		t.Errorf("total %d", s.Total())
	}
}

func TestSourceResumes(t *testing.T) {
	want, _ := takeAll(t, newSource(t, 5, 3), 4)
	for cut := range 5 {
		first := newSource(t, 5, 3)
		var got []string
		for range cut {
			exps, err := trinitytest.Take(t.Context(), first, 4, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range exps {
				got = append(got, e.ID.String())
			}
		}
		state, err := first.State()
		if err != nil {
			t.Fatal(err)
		}
		second := newSource(t, 5, 3)
		if err := second.Restore(state); err != nil {
			t.Fatal(err)
		}
		rest, _ := takeAll(t, second, 4)
		if got = append(got, rest...); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("resumed after %d batches: %v, want %v", cut, got, want)
		}
	}
}

// A preference is two experiences, which come together and count as two.
func TestSourceOfPairs(t *testing.T) {
	const rows = "{\"prompt\": \"0\", \"chosen\": \"g\", \"rejected\": \"b\"}\n{\"prompt\": \"1\", \"chosen\": \"g\", \"rejected\": \"b\"}\n"
	d, err := Open(t.Context(), filepath.Join(write(t, map[string]string{"dpo.jsonl": rows}), "dpo.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Formatter("dpo", Format{TaskFormat: preferenceKeys, PromptType: "plaintext"}, letters{})
	if err != nil {
		t.Fatal(err)
	}
	sel := &trinitytest.InOrder{}
	if err := sel.Start(d); err != nil {
		t.Fatal(err)
	}
	s := NewSource(d, sel, f, 3)
	if _, err := trinitytest.Take(t.Context(), s, 3, 0); err == nil ||
		!strings.Contains(err.Error(), "a batch of 3 experiences was asked for, and a row of dpo gives 2") {
		t.Error(err)
	}
	ids, sizes := takeAll(t, s, 8)
	if want := "1/dpo/0/0/0 1/dpo/0/1/0 1/dpo/1/0/0 1/dpo/1/1/0 1/dpo/0/2/0 1/dpo/0/3/0"; s.Total() != 12 || fmt.Sprint(sizes) != "[8 4]" ||
		strings.Join(ids[:6], " ") != want {
		t.Errorf("total %d, batches of %v, ids %v", s.Total(), sizes, ids)
	}
}

func TestSourceErrors(t *testing.T) {
	dir := write(t, map[string]string{"a.jsonl": "{\"prompt\": \"q\", \"response\": \"r\"}\n\n{\"prompt\": \"q\"}\n"})
	d, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSource(t, 2, 1)
	s.data = d
	if _, err := trinitytest.Take(t.Context(), s, 2, 0); err == nil || !strings.Contains(err.Error(), `a.jsonl:3: no field "response"`) {
		t.Errorf("a row without response: %v", err)
	}
	s = newSource(t, 2, 1)
	if _, err := trinitytest.Take(t.Context(), s, 0, 0); err == nil {
		t.Error("a batch of none was given")
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := trinitytest.Take(ctx, s, 1, 0); !errors.Is(err, stop) {
		t.Errorf("after a stop: %v", err)
	}
	for want, state := range map[string]trinity.SourceState{
		"pending experiences": {Pending: []trinity.Group{{{}}}},
		"state: unexpected":   {Cursor: []byte(`{`)},
		"cannot be":           {Cursor: []byte(`{"taken": -1, "selector": 0}`)},
	} {
		if err := s.Restore(state); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Restore(%s): %v, want %q", state.Cursor, err, want)
		}
	}
}
