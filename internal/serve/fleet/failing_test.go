package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"github.com/trinity-go/trinity/trinitytest"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// failing is a buffer whose next calls fail; times is how many.
type failing struct {
	trinity.Buffer
	times int
}

type failingSink struct {
	trinity.Sink
	*failing
}

func (f *failing) Sink(explorer string) trinity.Sink { return failingSink{f.Buffer.Sink(explorer), f} }

var errBroken = errors.New("the connection is broken")

func (f *failing) fail() error {
	if f.times == 0 {
		return nil
	}
	f.times--
	return errBroken
}

func (s failingSink) Put(ctx context.Context, d trinity.Delivery) error {
	if err := s.fail(); err != nil {
		return err
	}
	return s.Sink.Put(ctx, d)
}

func (s failingSink) Resume(ctx context.Context) (int64, json.RawMessage, error) {
	if err := s.fail(); err != nil {
		return 0, nil, err
	}
	return s.Sink.Resume(ctx)
}

// If the buffer fails to take a delivery and the explorer sends it again, the buffer has it once.
// The explorer still pauses.
func TestPutAfterAFailure(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	broken := &failing{Buffer: tr.Buffer}
	tr.Server.Buffer = broken
	c := client("left", at(tr), time.Minute)
	if _, _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for step := range 3 {
		d := trinity.Delivery{Groups: group(int64(step), 1), Cursor: []byte(`1`)}
		for broken.times = step; broken.times > 0; {
			mention(t, c.Put(t.Context(), d), "the connection is broken")
		}
		if err := c.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	exps, err := trinitytest.Take(t.Context(), tr.Buffer, 100, 0)
	if err != nil || len(exps) != 3 {
		t.Fatalf("took %d, %v; want one of each of 3 steps, because the explorer pauses", len(exps), err)
	}
	for step, e := range exps {
		if e.ID.Step != int64(step) {
			t.Errorf("experience %d is of step %d", step, e.ID.Step)
		}
	}

	// An explorer that fails to join again keeps the number of its last delivery.
	tr.known.byName["left"].session = nil
	broken.times = 1
	mention(t, c.Put(t.Context(), trinity.Delivery{Groups: group(4, 1)}), "the connection is broken")
	tr.known.byName["left"].delivered = 0 // as in a trainer that started again
	if err := c.Put(t.Context(), trinity.Delivery{Groups: group(4, 1)}); err != nil {
		t.Error(err)
	}
}
