package remote

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// The trainer does not take what the first of two explorers has given as all that there is, before the second has joined: nor once it was killed.
func TestTheTrainerWaitsForAllShares(t *testing.T) {
	dir := t.TempDir()
	tr := train(t, dir, fixed, 0)
	place := at(tr)
	right := sharing(place, "right", Share{2, 2})
	resume(t, right)
	if err := right.Put(t.Context(), trinity.Delivery{Groups: group(1, 1)}); err != nil {
		t.Fatal(err)
	}
	pause(t, right)
	tr.waits(t, "nobody has joined yet for explorer.share 1/2")

	tr.kill()
	tr = train(t, dir, fixed, 0)
	place.is(tr)
	resume(t, right) // which says that it is paused
	tr.waits(t, "nobody has joined yet for explorer.share 1/2")

	left := sharing(place, "left", Share{1, 2})
	resume(t, left)
	tr.waits(t, "explorer left")
	pause(t, left)
	if got, err := tr.Buffer.Take(t.Context(), 2, 0); err != nil || len(got) != 1 {
		t.Errorf("Take: %d experiences, %v, once both wait; want the one that there is", len(got), err)
	}

	mid := sharing(place, "mid", Share{2, 3})
	resume(t, mid)
	pause(t, mid)
	tr.waits(t, "explorer.share 1/3, 3/3")
	tr.kill()
	tr = train(t, dir, fixed, 0)
	place.is(tr)
	tr.waits(t, "explorer.share 1/3, 3/3")
	for _, c := range []*Client{left, right} {
		c.Share = Share{1, 1}
		resume(t, c)
	}
	resume(t, mid)
	tr.waits(t, "explorer.share 1/3, 3/3")
	mid.Share = Share{1, 1}
	resume(t, mid)
	if got, err := tr.Buffer.Take(t.Context(), 2, 0); err != nil || len(got) != 1 {
		t.Errorf("Take: %d experiences, %v; want the one that there is, now that all have all rows", len(got), err)
	}
}

// Those that have come and closed are not missing.
func TestAClosedExplorerHasItsShare(t *testing.T) {
	dir := t.TempDir()
	tr := train(t, dir, fixed, 0)
	place := at(tr)
	left, right := sharing(place, "left", Share{1, 2}), sharing(place, "right", Share{2, 2})
	resume(t, left)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	tr.waits(t, "explorer.share 2/2")
	tr.kill()
	tr = train(t, dir, fixed, 0)
	place.is(tr)
	tr.waits(t, "explorer.share 2/2")
	resume(t, right)
	tr.kill()
	tr = train(t, dir, fixed, 0)
	place.is(tr)
	resume(t, right)
	pause(t, right)
	if got, err := tr.Buffer.Take(t.Context(), 2, 0); err != nil || len(got) != 0 {
		t.Errorf("Take: %d experiences, %v; want none, and no wait", len(got), err)
	}
}

func TestSharesThatThereAreNot(t *testing.T) {
	for _, s := range []Share{{}, {0, 2}, {3, 2}, {1, maxShares + 1}} {
		tr := train(t, t.TempDir(), fixed, 0)
		_, err := sharing(at(tr), "left", s).Resume(t.Context())
		mention(t, err, "there may be 4096")
	}
}

func sharing(p Place, name string, of Share) *Client {
	c := client(name, p, time.Minute)
	c.Share = of
	return c
}

func resume(t *testing.T, c *Client) {
	t.Helper()
	if _, err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func pause(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Pause(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

// waits fails the test if the trainer is handed a batch; text is whom it waits for.
func (tr *trainer) waits(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got, err := tr.Buffer.Take(ctx, 2, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Take: %d experiences, %v; want a wait", len(got), err)
	}
	if who := tr.Explorers(); !strings.Contains(who, text) {
		t.Errorf("the trainer waits, and says %q, want %q", who, text)
	}
}
