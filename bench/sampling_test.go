package main

import (
	"testing"
	"time"
)

func TestClockTimesStepsInWhichAllDecode(t *testing.T) {
	for _, c := range []struct {
		name      string
		sequences int
		most      int
		steps     [][]int // sequences by token
		steady    []bool
		tokens    int // from the first of the steady steps to the last
	}{
		{"a step a token", 3, 4, [][]int{{0}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {1, 2}, {1, 2}},
			[]bool{false, false, true, true, false, false}, 3},
		{"drafts", 2, 6, [][]int{{1}, {1, 0}, {1, 1, 0}, {1, 0, 0, 0}, {1, 0}, {0}},
			[]bool{false, false, true, true, true, false}, 7},
		{"one sequence", 1, 4, [][]int{{0}, {0}, {0}, {0}}, []bool{false, true, true, true}, 2},
	} {
		k := newClock(c.sequences, c.most)
		for i, step := range c.steps {
			if got := k.steady(); got != c.steady[i] {
				t.Errorf("%s: all decode in step %d: %v, want %v", c.name, i+1, got, c.steady[i])
			}
			for _, sequence := range step {
				k.tick(sequence)
			}
			time.Sleep(time.Millisecond)
		}
		s, err := k.decode()
		if want := float64(c.tokens) / k.end.Sub(k.first.Time).Seconds(); err != nil || s.Value != want {
			t.Errorf("%s: %v tokens a second, %v; want %v, of %d tokens", c.name, s.Value, err, want, c.tokens)
		}
	}
}

func TestClockOfPromptsThatComeTooLate(t *testing.T) {
	c := newClock(2, 1)
	c.tick(0)
	c.tick(1)
	if s, err := c.decode(); err == nil {
		t.Errorf("decoding is %v, want an error: no step has both sequences", s)
	}
}
