package dataset

import (
	"context"
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

// newPacked packs texts. A dot ends each text.
func newPacked(t *testing.T, length, epochs int, texts ...string) *Packed {
	t.Helper()
	var lines strings.Builder
	for _, text := range texts {
		line, err := json.Marshal(map[string]string{"prompt": text})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	d, err := Open(t.Context(), filepath.Join(write(t, map[string]string{"texts.jsonl": lines.String()}), "texts.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Formatter("cpt", Format{TaskFormat: keys, PromptType: "plaintext"}, letters{})
	if err != nil {
		t.Fatal(err)
	}
	sel := &trinitytest.InOrder{}
	if err := sel.Start(d); err != nil {
		t.Fatal(err)
	}
	return &Packed{Rows: NewSource(d, sel, f, epochs), Length: length, End: '.'}
}

// sequences takes batches of n until the end.
func sequences(t *testing.T, p *Packed, n int) (all []string) {
	t.Helper()
	for {
		exps, err := trinitytest.Take(t.Context(), p, n, 0)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range exps {
			if err := e.Check(); err != nil || e.PromptLen != 1 {
				t.Errorf("%v, prompt of %d", err, e.PromptLen)
			}
			all = append(all, learnt(e))
		}
	}
}

func TestPacked(t *testing.T) {
	for _, c := range []struct {
		name           string
		length, epochs int
		texts          []string
		want           []string // all but the first token of a text, and of a sequence, is learnt
	}{
		{"texts join", 6, 1, []string{"ab", "cdef", "gh"}, []string{"a[b.]c[de]", "f[.]g[h.]"}},
		{"a text that ends as it should gets no second end", 6, 1, []string{"ab.", "cd"}, []string{"a[b.]c[d.]"}},
		{"a long text goes on", 4, 1, []string{"abcdefghij", "k.l"}, []string{"a[bcd]", "e[fgh]", "i[j.]k", ".[l.]"}},
		{"epochs join as well", 5, 2, []string{"ab", "cd"}, []string{"a[b.]c[d]", ".a[b.]c", "d[.]"}},
		{"a rest of one token teaches nothing", 5, 1, []string{"abcde"}, []string{"a[bcde]"}},
		{"nothing is cut off a text of just the length", 4, 1, []string{"abc", "def"}, []string{"a[bc.]", "d[ef.]"}},
	} {
		if got := sequences(t, newPacked(t, c.length, c.epochs, c.texts...), 2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPackedTotal(t *testing.T) {
	for _, c := range []struct{ length, epochs, want int }{{6, 1, 2}, {5, 2, 5}, {11, 1, 1}, {10, 1, 1}, {4, 0, 0}} {
		p := newPacked(t, c.length, c.epochs, "ab", "cdef", "gh") // 11 tokens
		if n, err := p.Total(); err != nil || n != c.want {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
		if c.epochs > 0 {
			if n := len(sequences(t, p, 1)); n != c.want {
				t.Errorf("%+v: %d sequences came", c, n)
			}
		}
	}
}

func TestPackedResumes(t *testing.T) {
	texts := []string{"ab", "cdefghijklm", "no", "pqrs"}
	want := sequences(t, newPacked(t, 4, 3, texts...), 2)
	for cut := range 8 {
		first := newPacked(t, 4, 3, texts...)
		var got []string
		for range cut {
			exps, err := trinitytest.Take(t.Context(), first, 2, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range exps {
				got = append(got, learnt(e))
			}
		}
		state, err := first.State()
		if err != nil {
			t.Fatal(err)
		}
		second := newPacked(t, 4, 3, texts...)
		if err := second.Restore(state); err != nil {
			t.Fatal(err)
		}
		exps, err := trinitytest.Take(t.Context(), second, 2, 0)
		if want := fmt.Sprintf("%d/texts/packed/%d/0/0", cut+1, 2*cut+1); err != nil || exps[1].ID.String() != want {
			t.Fatalf("after %d batches: %v, %v, want %s", cut, exps, err, want)
		}
		for _, e := range exps {
			got = append(got, learnt(e))
		}
		if got = append(got, sequences(t, second, 2)...); !slices.Equal(got, want) {
			t.Errorf("resumed after %d batches: %q, want %q", cut, got, want)
		}
	}
}

// stopping is a context that ends after a number of calls of Err.
type stopping struct {
	context.Context
	looks int
}

func (s *stopping) Err() error {
	if s.looks--; s.looks < 0 {
		return context.Canceled
	}
	return nil
}

func TestPackedKeepsRowsOfACancelledBatch(t *testing.T) {
	texts := []string{"ab", "cd", "ef", "gh", "ij"} // four rows make three sequences
	want := sequences(t, newPacked(t, 4, 1, texts...), 3)
	for looks := range 4 {
		p := newPacked(t, 4, 1, texts...)
		if _, err := trinitytest.Take(&stopping{t.Context(), looks}, p, 3, 0); err == nil {
			t.Fatalf("after %d looks at the context: no error", looks)
		}
		if got := sequences(t, p, 3); !slices.Equal(got, want) {
			t.Errorf("given up after %d rows: %q, want %q", looks, got, want)
		}
	}
}

func TestPackedErrors(t *testing.T) {
	p := newPacked(t, 4, 1, "ab", "c")
	if _, err := p.Total(); err == nil || !strings.Contains(err.Error(), "texts.jsonl:2: prompt has 1 tokens") {
		t.Error(err)
	}
	if _, err := trinitytest.Take(t.Context(), p, 1, 0); err == nil || !strings.Contains(err.Error(), "texts.jsonl:2") {
		t.Error(err)
	}
	if _, err := trinitytest.Take(t.Context(), p, 0, 0); err == nil {
		t.Error("a batch of none was given")
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := trinitytest.Take(ctx, newPacked(t, 4, 1, "ab"), 1, 0); !errors.Is(err, stop) {
		t.Error(err)
	}
	for want, state := range map[string]trinity.SourceState{
		"state: unexpected":     {Cursor: []byte(`{`)},
		"2 tokens with a mask":  {Cursor: []byte(`{"rest": {"tokens": [1, 2], "mask": [true]}}`)},
		"dataset source: state": {Cursor: []byte(`{"rows": 3}`)},
		"pending experiences":   {Cursor: []byte(`{"rows": {}}`), Pending: []trinity.Group{{{}}}},
	} {
		if err := p.Restore(state); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", state.Cursor, err, want)
		}
	}
}
