package trinitytest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/trinity-go/trinity/selector"
)

// Selector checks the contract of selectors. The rows have a number at the key "rank", and pass
// rates at "weak" and "strong". build returns a new, equal selector each time.
func Selector(t *testing.T, build func() selector.Selector) {
	start := func(t *testing.T, n int) selector.Selector {
		t.Helper()
		s := build()
		if err := s.Start(ranked(n)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("batches", func(t *testing.T) {
		for _, n := range []int{1, 3, 10} {
			for s, i := start(t, n), 0; i < 12; i++ {
				step(t, s, n, []int{1, 0, 4, 23}[i%4])
			}
		}
	})
	t.Run("refusals", func(t *testing.T) {
		if err := build().Start(Rows{}); err == nil {
			t.Error("a dataset without rows was accepted")
		}
		if rows, err := build().Next(1); err == nil {
			t.Errorf("rows %v before Start", rows)
		}
		if rows, err := start(t, 3).Next(-1); err == nil {
			t.Errorf("rows %v for a batch of -1", rows)
		}
	})
	t.Run("resume", func(t *testing.T) {
		sizes := []int{4, 4, 7, 1, 0, 33, 4, 10, 5}
		var want [][]int
		for s, i := start(t, 10), 0; i < len(sizes); i++ {
			want = append(want, step(t, s, 10, sizes[i]))
		}
		for cut := range len(sizes) + 1 {
			s := start(t, 10)
			for _, size := range sizes[:cut] {
				step(t, s, 10, size)
			}
			saved := state(t, s)
			resumed := start(t, 10)
			if err := resumed.Restore(saved); err != nil {
				t.Fatalf("its own state %s: %v", saved, err)
			}
			for i, size := range sizes[cut:] {
				goesOn, restored := step(t, s, 10, size), step(t, resumed, 10, size)
				if !slices.Equal(goesOn, want[cut+i]) || !slices.Equal(restored, want[cut+i]) {
					t.Fatalf("state taken before batch %d: batch %d is %v, and %v when restored, want %v", cut, cut+i, goesOn, restored, want[cut+i])
				}
			}
		}
	})
	t.Run("broken state", func(t *testing.T) {
		s := start(t, 10)
		step(t, s, 10, 13)
		saved := string(state(t, s))
		for _, torn := range []string{"", saved[:len(saved)-1], saved + "}", "\x00\xff"} {
			if err := start(t, 10).Restore(json.RawMessage(torn)); err == nil {
				t.Errorf("the state %q was accepted", torn)
			}
		}
		forged := []string{"null", "[]", "{}", `"x"`, "-1"}
		for _, n := range []string{"-1", "0.5", "9223372036854775807", "1e300", "null", `"x"`} {
			forged = append(forged, regexp.MustCompile(`\d+`).ReplaceAllString(saved, n))
			for _, at := range regexp.MustCompile(`\d+`).FindAllStringIndex(saved, -1) {
				forged = append(forged, saved[:at[0]]+n+saved[at[1]:])
			}
		}
		for _, f := range forged { // a selector must work with a state that it accepts
			if s := start(t, 10); s.Restore(json.RawMessage(f)) == nil {
				t.Run(f, func(t *testing.T) { step(t, s, 10, 23); step(t, s, 10, 23) })
			}
		}
	})
}

// step takes a batch from a dataset of n rows, checks it and reports a reward for each row.
func step(t *testing.T, s selector.Selector, n, size int) []int {
	t.Helper()
	rows, err := s.Next(size)
	if err != nil || len(rows) != size || slices.ContainsFunc(rows, func(r int) bool { return r < 0 || r >= n }) {
		t.Fatalf("a batch of %d from %d rows: got %v, %v", size, n, rows, err)
	}
	rewards := map[int]float64{}
	for _, r := range rows {
		rewards[r] = float64(r%3) / 2
	}
	s.Feedback(rewards)
	s.Feedback(nil)
	return rows
}

func state(t *testing.T, s selector.Selector) json.RawMessage {
	t.Helper()
	first, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.State()
	if err != nil || !json.Valid(first) || !bytes.Equal(first, second) {
		t.Fatalf("the state is %s, and then %s, %v: want the same JSON", first, second, err)
	}
	return first
}
