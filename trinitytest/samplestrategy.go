package trinitytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Numbered is a Source of experiences that ID.Run numbers, all of the newest version. It has Total
// experiences, or no end if Total is negative.
type Numbered struct {
	Task    string
	Total   int
	next    int
	pending []*trinity.Experience
}

// Take implements trinity.Source.
func (s *Numbered) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	n := want.N
	if ctx.Err() != nil {
		return trinity.Taken{}, context.Cause(ctx)
	}
	for len(s.pending) < n && s.next != s.Total {
		s.pending = append(s.pending, &trinity.Experience{
			ID: trinity.ExperienceID{Task: s.Task, Run: s.next}, Tokens: []int32{1, 2}, Mask: []bool{false, true},
			Versions: [2]int64{1 << 40, 1 << 40},
		})
		s.next++
	}
	if len(s.pending) == 0 {
		return trinity.Taken{}, io.EOF
	}
	n = min(n, len(s.pending))
	out := trinity.JoinGroups(nil, s.pending[:n:n])
	s.pending = s.pending[n:]
	return trinity.Taken{Groups: out}, nil
}

// State implements trinity.Source.
func (s *Numbered) State() (trinity.SourceState, error) {
	cursor, err := json.Marshal(s.next)
	return trinity.SourceState{Cursor: cursor, Pending: trinity.JoinGroups(nil, s.pending)}, err
}

// Restore implements trinity.Source.
func (s *Numbered) Restore(from trinity.SourceState) error {
	s.pending = slices.Concat(from.Pending...)
	return json.Unmarshal(from.Cursor, &s.next)
}

// SampleStrategy checks the contract of sample strategies that read the experience buffer in order.
// build returns a new, equal strategy each time.
func SampleStrategy(t *testing.T, build func() trinity.SampleStrategy) {
	const usual, batch = 37, 8
	open := func(t *testing.T) trinity.Source {
		t.Helper()
		strategy, auxiliary := build(), map[string]trinity.Source{}
		for name := range strategy.Needs().Auxiliary {
			auxiliary[name] = &Numbered{Task: "aux", Total: -1}
		}
		if len(auxiliary) > 0 {
			if _, err := strategy.Open(&Numbered{}, nil); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("without its auxiliary buffers: %v", err)
			}
		}
		source, err := strategy.Open(&Numbered{Task: "usual", Total: usual}, auxiliary)
		if err != nil {
			t.Fatal(err)
		}
		return source
	}
	t.Run("batches", func(t *testing.T) {
		source, rollouts := open(t), build().Rollouts(batch)
		next := 0
		for next < usual {
			left := usual - next
			exps := takeSome(t, source, batch).Experiences()
			if left >= rollouts && len(exps) != batch || len(exps) > batch {
				t.Fatalf("%d experiences for a batch of %d, with %d left in the source", len(exps), batch, left)
			}
			for _, e := range exps {
				if e.ID.Task == "usual" {
					if e.ID.Run != next || e.IsExpert {
						t.Fatalf("experience %d is %s, an expert: %t", next, e.ID, e.IsExpert)
					}
					next++
				}
			}
		}
		for range 2 {
			if exps, err := Take(t.Context(), source, batch, 0); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %d experiences, %v", len(exps), err)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCause)
		source := open(t)
		if _, err := Take(ctx, source, batch, 0); !errors.Is(err, errCause) {
			t.Errorf("%v, want the context's cause", err)
		}
		if got, want := rest(t, source, batch), rest(t, open(t), batch); got != want {
			t.Errorf("after a Take that was cancelled:\n%swant\n%s", got, want)
		}
	})
	t.Run("resume", func(t *testing.T) {
		want := rest(t, open(t), batch)
		for cut := range strings.Count(want, "\n") {
			first, second := open(t), open(t)
			var got strings.Builder
			for range cut {
				got.WriteString(told(takeSome(t, first, batch)))
			}
			hand(t, first, second)
			if got.WriteString(rest(t, second, batch)); got.String() != want {
				t.Errorf("resumed after %d batches:\n%swant\n%s", cut, &got, want)
			}
		}
	})
	t.Run("a state of something else", func(t *testing.T) {
		for _, cursor := range []string{"", "{", `"x"`, "7", `{"step": 3}`} {
			if err := open(t).Restore(trinity.SourceState{Cursor: []byte(cursor)}); err == nil {
				t.Errorf("the state %q was accepted", cursor)
			}
		}
	})
}

func takeSome(t *testing.T, s trinity.Source, n int) trinity.Taken {
	t.Helper()
	taken, err := s.Take(t.Context(), trinity.Want{N: n})
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// rest returns all remaining batches, one per line.
func rest(t *testing.T, s trinity.Source, n int) string {
	t.Helper()
	var lines strings.Builder
	for {
		taken, err := s.Take(t.Context(), trinity.Want{N: n})
		if errors.Is(err, io.EOF) {
			return lines.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines.WriteString(told(taken))
	}
}

// told returns a batch as one line, with the metrics that do not depend on the clock.
func told(taken trinity.Taken) string {
	var line strings.Builder
	for _, e := range taken.Experiences() {
		fmt.Fprintf(&line, "%s ", e.ID)
	}
	if taken.Metrics != nil {
		metrics := maps.Clone(taken.Metrics)
		maps.DeleteFunc(metrics, func(name string, _ float64) bool { return strings.HasPrefix(name, "time/") })
		fmt.Fprint(&line, metrics)
	}
	return line.String() + "\n"
}

// hand copies the state of one source to another, through the form of a checkpoint.
func hand(t *testing.T, from, to trinity.Source) {
	t.Helper()
	state, err := from.State()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var read trinity.SourceState
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if err := to.Restore(read); err != nil {
		t.Fatal(err)
	}
}
