package sweep

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/config"
)

func TestRungs(t *testing.T) {
	for _, c := range []struct {
		trials, eta, total int
		want               []int
		err                string
	}{
		{8, 2, 80, []int{10, 20, 40, 80}, ""}, {9, 3, 90, []int{10, 30, 90}, ""}, {8, 3, 90, []int{30, 90}, ""}, {2, 3, 90, []int{30, 90}, ""},
		{1, 3, 90, []int{90}, ""}, {27, 3, 100, []int{3, 11, 33, 100}, ""}, {8, 2, 7, nil, "too few for 4 rungs"},
	} {
		s := &sweep{Options: Options{Eta: c.eta}, base: &config.Config{}, trials: make([]*trial, c.trials)}
		s.base.Buffer.TotalSteps = &c.total
		s.base.Algorithm.Optimizer.LRSchedulerType = "constant"
		got, err := s.rungs()
		said := ""
		if err != nil {
			said = err.Error()
		}
		if !slices.Equal(got, c.want) || !strings.Contains(said, c.err) || (err != nil) != (c.err != "") {
			t.Errorf("%d trials, %d steps: %v, %v; want %v, %q", c.trials, c.total, got, err, c.want, c.err)
		}
	}
}

func TestReason(t *testing.T) {
	exit := errors.New("exit status 1")
	for printed, want := range map[string]string{
		"12:00:00  step 1/2\ntrinity: disk full\ntrinity: and more\n": "disk full",
		"panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n":        "boom",
		"12:00:00  step 1/2\n": "12:00:00  step 1/2: exit status 1",
		"":                     "exit status 1",
	} {
		if got := reason(printed, exit); got != want {
			t.Errorf("%q: %q, want %q", printed, got, want)
		}
	}
}
