package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// A trainer that ends tells the explorers that join or deliver then, and waits for none of them.
func TestJoinAtTheEnd(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	left := client("left", at(tr), time.Minute)
	resume(t, left)
	if err := tr.Buffer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := left.Put(t.Context(), trinity.Delivery{Groups: group(1, 1)}); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("left delivers: %v, want ErrEnded", err)
	}
	if err := left.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := client("right", at(tr), time.Minute).Resume(t.Context()); !errors.Is(err, trinity.ErrEnded) {
		t.Errorf("right joins: %v, want ErrEnded", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := tr.end(ctx, t.Context()); err != nil {
		t.Error(err)
	}
}

// A trainer that has ended names the explorers that it waits for. A stop ends the wait without an
// error.
func TestStopEndsTheWaitForExplorers(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	for _, name := range []string{"left", "right", "busy"} {
		resume(t, client(name, at(tr), time.Minute))
	}
	tr.known.byName["left"].closed, tr.known.byName["right"].gone = true, true
	stop, cancel := context.WithCancel(t.Context())
	var said []string
	tr.Say = func(line string) {
		said = append(said, line)
		cancel()
	}
	tr.Timeout = 5 * time.Second
	for range 2 { // the second time the stop comes first
		if err := tr.end(t.Context(), stop); err != nil {
			t.Error(err)
		}
	}
	const want = "the trainer waits until these explorers know, or until Ctrl-C: explorer busy (host "
	if len(said) != 1 || !strings.Contains(said[0], want) || strings.Count(said[0], "explorer ") != 1 {
		t.Errorf("said %q, want one line that names explorer busy alone", said)
	}
}

// watchedPlace calls waits when a client has found no trainer and is about to retry.
type watchedPlace struct {
	*place
	waits func()
}

func (p watchedPlace) wait(ctx context.Context, d time.Duration) {
	p.waits()
	p.place.wait(ctx, d)
}

// A stop ends an explorer that has done its steps and waits for a trainer that is gone. When both
// start again, the explorer closes.
func TestStopEndsClose(t *testing.T) {
	dir := t.TempDir()
	tr := train(t, dir, fixed, 0)
	p := at(tr)
	stop, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("interrupted")
	c := client("left", watchedPlace{p, func() { cancel(stopped) }}, 5*time.Second)
	resume(t, c)
	tr.kill()
	if err := c.Close(stop); !errors.Is(err, stopped) {
		t.Errorf("Close: %v, want %v", err, stopped)
	}
	tr = train(t, dir, fixed, 0)
	p.is(tr)
	again := client("left", p, time.Minute)
	resume(t, again)
	if err := again.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !tr.known.byName["left"].closed {
		t.Error("the trainer does not know that the explorer has closed")
	}
}
