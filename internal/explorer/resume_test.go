package explorer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
)

// recording returns an explorer that evaluates after steps 2 and 4, and the records that it logs.
// If broken is set, logging an evaluation fails with it.
func recording(t *testing.T, q *buffer.Queue, broken error) (*Explorer, *[]string) {
	t.Helper()
	records := &[]string{}
	e := newExplorer(t, q, 4)
	e.opts.EvalInterval = 2
	e.opts.EvalTasksets[0].Template.Taskset = "eval"
	e.opts.Recorder = logging(func(step int64, m trinity.Metrics) error {
		score, evaluated := m["eval/eval/accuracy/mean@4"]
		if evaluated && broken != nil {
			return broken
		}
		*records = append(*records, fmt.Sprint(step, " reward ", m["rollout/reward/mean"], " evaluation ", score))
		return nil
	})
	return e, records
}

// The state of a delivery owes the evaluation that follows, until the explorer has logged it.
func TestResumeRepeatsAnUnloggedEvaluation(t *testing.T) {
	whole := buffer.NewQueue(100, 0, nil)
	e, want := recording(t, whole, nil)
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	q := buffer.NewQueue(100, 0, nil)
	killed := errors.New("killed")
	e, got := recording(t, q, killed)
	if err := e.Run(t.Context()); !errors.Is(err, killed) {
		t.Fatalf("got %v", err)
	}
	_, cut, _ := q.Sink("").Resume(t.Context())
	if state := string(cut); strings.Contains(state, "time/") || !strings.Contains(state, "rollout/reward/mean") {
		t.Errorf("the state %s holds durations, or no reward", state)
	}
	second, rest := recording(t, q, nil)
	if err := second.opts.Agenda.Restore(cut); err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := append(*got, *rest...); fmt.Sprint(got) != fmt.Sprint(*want) || len(got) != 4 {
		t.Errorf("the killed run recorded\n%v\nthe whole one\n%v", got, *want)
	}

	_, end, _ := q.Sink("").Resume(t.Context())
	third, again := recording(t, buffer.NewQueue(100, 0, nil), nil)
	if err := third.opts.Agenda.Restore(end); err != nil {
		t.Fatal(err)
	}
	if err := third.Run(t.Context()); err != nil || len(*again) != 0 {
		t.Errorf("a run that was complete recorded %v, %v", *again, err)
	}
}
