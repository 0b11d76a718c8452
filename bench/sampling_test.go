package main

import (
	"testing"
	"time"
)

// TestClockTimesStepsInWhichAllDecode: the second sequence gets its first token in step 2, and the first one its last in step 4.
func TestClockTimesStepsInWhichAllDecode(t *testing.T) {
	c := newClock(3, 4)
	steps := [][]int{{0}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {1, 2}, {1, 2}}
	steady := []bool{false, false, true, true, false, false}
	for i, step := range steps {
		if got := c.steady(); got != steady[i] {
			t.Errorf("all decode in step %d: %v, want %v", i+1, got, steady[i])
		}
		for _, sequence := range step {
			c.tick(sequence)
		}
		time.Sleep(time.Millisecond)
	}
	if c.count != 6 {
		t.Errorf("%d tokens count, want those of two steps of three", c.count)
	}
	s, err := c.decode()
	if want := 6 / c.end.Sub(c.first.Time).Seconds(); err != nil || s.Value != want || c.end.After(c.last) {
		t.Errorf("decoding %v, %v; want %g a second, and the end before the tail", s, err, want)
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
