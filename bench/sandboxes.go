package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/trinity-go/trinity/internal/sandbox"
)

// sandboxes starts programs that do nothing, one after the other.
type sandboxes struct {
	box     *sandbox.Sandbox // nil starts them as they are
	command []string
}

func newSandbox(a *assignment) (task, error) {
	s := &sandboxes{command: []string{"/bin/true"}}
	if a.Workload == "sandbox_start_python" {
		s.command = []string{"/usr/bin/python3", "-c", "pass"}
	}
	if a.Unconfined {
		return s, nil
	}
	var err error
	s.box, err = sandbox.New(sandbox.Full)
	return s, err
}

// run returns the median of some starts, in milliseconds.
func (s *sandboxes) run(int) (sample, error) {
	const starts = 40
	var took []time.Duration
	for range starts {
		begin := time.Now()
		if err := s.start(); err != nil {
			return sample{}, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	return sample{Value: ms(took[starts/2]), P99: ms(took[starts*99/100])}, nil
}

func (s *sandboxes) start() error {
	if s.box == nil {
		return exec.Command(s.command[0], s.command[1:]...).Run()
	}
	r, err := s.box.Run(context.Background(), &sandbox.Program{Command: s.command})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("%q ended with status %d: %s", s.command, r.ExitCode, r.Stderr)
	}
	return err
}
