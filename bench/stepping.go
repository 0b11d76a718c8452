package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// stepped is what --phases learns of a step in which all sequences decode.
type stepped struct {
	Phases map[string]float64 `json:"phases"` // seconds of each
	CPU    float64            `json:"cpu"`    // seconds of all cores
	Last   bool               `json:"last"`   // no other step of the run has all sequences
}

// wholeStep and processorStep are the names of a step's time beside those of its phases.
const (
	wholeStep     = "step"
	processorStep = "step, processor time"
)

// observable is a sampler that tells of the phases of its steps, as the embedded engine's does.
type observable interface{ Observe(mark func(phase string)) }

// stepping is sampling whose steps wait for their turn, once all sequences decode.
type stepping struct {
	*sampling
	turns *bufio.Scanner
	out   io.Writer
	ready bool // the run has come to the first of these steps
	timed bool // the step is one of them
	start moment
	last  time.Time
	times map[string]float64
	err   error // of out
}

// serveSteps runs the task each time that the parent asks for a run. Within a run, each step in which all sequences decode waits until
// the parent asks for it.
func serveSteps(t task, in io.Reader, out io.Writer) error {
	s, ok := t.(*sampling)
	if !ok {
		return fmt.Errorf("a %T has no steps of a sampler", t)
	}
	sampler, ok := s.sampler.(observable)
	if !ok {
		return errors.New("the sampler of this commit does not tell the phases of its steps")
	}
	st := &stepping{sampling: s, turns: bufio.NewScanner(in), out: out}
	if _, err := s.run(0); err != nil {
		return err
	}
	if err := say(out, sample{Ready: true}); err != nil {
		return err
	}
	sampler.Observe(st.mark)
	for number := 1; st.turns.Scan() && st.turns.Text() == "run"; number++ {
		st.ready = false
		result, err := s.run(number)
		if err := errors.Join(err, st.err, say(out, result)); err != nil {
			return err
		}
	}
	return st.turns.Err()
}

// mark is the sampler's observer.
func (s *stepping) mark(phase string) {
	switch {
	case phase == "begin":
		if s.timed = s.clock.steady(); s.timed {
			s.begin()
		}
	case !s.timed:
	case phase == "end":
		s.times[wholeStep] = s.last.Sub(s.start.Time).Seconds()
		s.tell(sample{Step: &stepped{Phases: s.times, CPU: (processorTime() - s.start.cpu).Seconds(), Last: s.clock.ending}})
		if s.clock.ending {
			s.await()
		}
	default:
		t := time.Now()
		s.times[phase] += t.Sub(s.last).Seconds()
		s.last = t
	}
}

// begin begins a step when it is told to.
func (s *stepping) begin() {
	if !s.ready {
		s.ready = true
		s.tell(sample{Ready: true})
	}
	s.await()
	s.times, s.start = map[string]float64{}, now()
	s.last = s.start.Time
}

// await returns when the other process has ended its step.
func (s *stepping) await() {
	if !s.turns.Scan() {
		os.Exit(0) // the parent is gone
	}
}

func (s *stepping) tell(m sample) { s.err = errors.Join(s.err, say(s.out, m)) }
