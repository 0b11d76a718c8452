package remote

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// failing is a buffer whose explorers' next accesses fail: after they were done, or before.
type failing struct {
	trinity.Buffer
	after, before int // how many more
}

type failingSink struct {
	trinity.Sink
	*failing
}

func (f *failing) Sink(explorer string) trinity.Sink { return failingSink{f.Buffer.Sink(explorer), f} }

var errBroken = errors.New("the connection is broken")

func (f *failing) access(do func() error) error {
	if f.before > 0 {
		f.before--
		return errBroken
	}
	if err := do(); err != nil || f.after == 0 {
		return err
	}
	f.after--
	return errBroken
}

func (s failingSink) Put(ctx context.Context, d trinity.Delivery) error {
	return s.access(func() error { return s.Sink.Put(ctx, d) })
}

func (s failingSink) Resume(ctx context.Context) (cursor json.RawMessage, err error) {
	err = s.access(func() error { cursor, err = s.Sink.Resume(ctx); return err })
	return cursor, err
}

// A delivery of which the trainer does not know whether the buffer has it is there once when it was sent again, and the explorer still pauses.
func TestADeliveryInDoubt(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	broken := &failing{Buffer: tr.Buffer}
	tr.Server.Buffer = broken
	c := client("left", at(tr), time.Minute)
	if _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for step, breaks := range []func(){
		func() { broken.after = 1 },
		func() { broken.before = 1 },
		func() { broken.before = 2 }, // to find out what it has fails, too
		func() {},
	} {
		breaks()
		d := trinity.Delivery{Groups: group(int64(step), 1), Cursor: []byte(`1`)}
		for broken.after+broken.before > 0 {
			mention(t, c.Put(t.Context(), d), "the connection is broken")
		}
		if err := c.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	exps, err := tr.Buffer.Take(t.Context(), 100, 0)
	if err != nil || len(exps) != 4 {
		t.Fatalf("took %d, %v; want one of each of 4 steps, because the explorer pauses", len(exps), err)
	}
	for step, e := range exps {
		if e.ID.Step != int64(step) {
			t.Errorf("experience %d is of step %d", step, e.ID.Step)
		}
	}

	// An explorer whose joining again has failed does not lose its count.
	tr.explorers["left"].session = nil
	broken.before = 1
	mention(t, c.Put(t.Context(), trinity.Delivery{Groups: group(4, 1)}), "the connection is broken")
	tr.explorers["left"].delivered = 0 // as of a trainer that was started again
	if err := c.Put(t.Context(), trinity.Delivery{Groups: group(4, 1)}); err != nil {
		t.Error(err)
	}
}
