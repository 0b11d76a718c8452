package fleet

import (
	"context"
	"errors"
	"github.com/trinity-go/trinity/trinitytest"
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
	if got, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil || len(got) != 1 {
		t.Errorf("Take: %d experiences, %v, once both wait; want the one that there is", len(got), err)
	}

	for _, c := range []*Client{left, right} {
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tr.kill()
	tr = train(t, dir, fixed, 0)
	place.is(tr)
	if got, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil || len(got) != 1 {
		t.Errorf("Take: %d experiences, %v; want the one that there is: all have come, and ended", len(got), err)
	}
}

// Explorers of other rows, of which each has all or another share, do not take the place of the one that is missing.
func TestTheTrainerWaitsForEachDivision(t *testing.T) {
	dir := t.TempDir()
	tr := train(t, dir, fixed, 0)
	place := at(tr)
	left, mid, all := sharing(place, "left", Share{1, 2}), sharing(place, "mid", Share{2, 3}), sharing(place, "all", Share{1, 1})
	for _, c := range []*Client{left, mid, all} {
		resume(t, c)
		pause(t, c)
	}
	tr.waits(t, "explorer.share 2/2, 1/3, 3/3")
	tr.kill()
	tr = train(t, dir, fixed, 0)
	place.is(tr)
	tr.waits(t, "explorer.share 2/2, 1/3, 3/3")
	others := []*Client{sharing(place, "right", Share{2, 2}), sharing(place, "low", Share{1, 3}), sharing(place, "high", Share{3, 3})}
	for _, c := range append(others, left, mid, all) {
		resume(t, c)
		pause(t, c)
	}
	if _, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil {
		t.Error(err)
	}

	left.Share, mid.Share = Share{1, 1}, Share{1, 1} // all have begun with what they had before
	for _, c := range []*Client{left, mid} {
		resume(t, c)
		pause(t, c)
	}
	if _, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil {
		t.Error(err)
	}
}

// A division that was given up before it was whole is not waited for, once those of it are lost.
func TestADivisionThatWasGivenUp(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	place := at(tr)
	left := sharing(place, "left", Share{1, 2})
	resume(t, left)
	all := sharing(place, "all", Share{1, 1})
	resume(t, all)
	pause(t, all)
	tr.waits(t, "explorer.share 2/2")
	tr.loses(t, "left")
	if _, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil {
		t.Error(err)
	}
}

// No rows are explored twice: by two explorers of one share, or by one that has another share than the one that its cursor counts.
func TestSharesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	tr := train(t, dir, fixed, 0)
	place := at(tr)
	left := sharing(place, "left", Share{1, 2})
	resume(t, left)
	again, others := sharing(place, "again", Share{1, 2}), sharing(place, "others", Share{1, 2})
	others.Rows = "of another taskset"
	refused := func() {
		t.Helper()
		_, _, err := again.Resume(t.Context())
		mention(t, err, "explorer left (host ", "has the share 1/2 of the same rows: give this one another explorer.share, or the explorer.name left")
	}
	refused()
	resume(t, others)
	left.Share = Share{2, 2} // it has explored nothing
	resume(t, left)
	left.Share = Share{1, 2}
	resume(t, left)
	if err := left.Put(t.Context(), trinity.Delivery{Groups: group(1, 1)}); err != nil {
		t.Fatal(err)
	}
	left.Share = Share{2, 2}
	_, _, err := left.Resume(t.Context())
	mention(t, err, "explorer left has explored the share 1/2 of the rows, and now would have 2/2: set explorer.share back")
	resume(t, sharing(place, "right", Share{2, 2}))
	left.Share = Share{1, 2}
	resume(t, left)

	tr.kill()
	tr = train(t, dir, fixed, 0)
	place.is(tr)
	again.Share = Share{1, 2}
	_, _, err = again.Resume(t.Context())
	mention(t, err, "explorer left has not joined again", "has the share 1/2")
}

func TestAnExplorerOfAnotherAlgorithm(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	tr.Algorithm = "grpo"
	c := client("explorer", at(tr), time.Minute)
	c.Algorithm = "raft"
	_, _, err := c.Resume(t.Context())
	mention(t, err, "algorithm.algorithm_type of the explorer is raft, and of the trainer grpo")
}

// Those that have come and closed are not missing.
func TestAClosedExplorerHasItsShare(t *testing.T) {
	dir := t.TempDir()
	tr := train(t, dir, fixed, 0)
	place := at(tr)
	left, right := sharing(place, "left", Share{1, 2}), sharing(place, "right", Share{2, 2})
	resume(t, left)
	if err := left.Close(t.Context()); err != nil {
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
	if got, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil || len(got) != 0 {
		t.Errorf("Take: %d experiences, %v; want none, and no wait", len(got), err)
	}
}

func TestSharesThatThereAreNot(t *testing.T) {
	for _, s := range []Share{{}, {0, 2}, {3, 2}, {1, maxShares + 1}} {
		tr := train(t, t.TempDir(), fixed, 0)
		_, _, err := sharing(at(tr), "left", s).Resume(t.Context())
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
	if _, _, err := c.Resume(t.Context()); err != nil {
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
	if got, err := trinitytest.Take(ctx, tr.Buffer, 2, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Take: %d experiences, %v; want a wait", len(got), err)
	}
	if who := tr.Explorers(); !strings.Contains(who, text) {
		t.Errorf("the trainer waits, and says %q, want %q", who, text)
	}
}

// loses lets an explorer's lease run out.
func (tr *trainer) loses(t *testing.T, name string) {
	t.Helper()
	tr.known.mu.Lock()
	tr.known.byName[name].heard = time.Now().Add(-tr.Lease)
	tr.lapse()
	tr.known.mu.Unlock()
	if err := tr.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// If the only explorer is lost the trainer waits for it, and for those that are yet to join too.
func TestTheOnlyOneOfADivisionIsLost(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	left := sharing(at(tr), "left", Share{1, 2})
	resume(t, left)
	if err := left.Put(t.Context(), trinity.Delivery{Groups: group(1, 1)}); err != nil {
		t.Fatal(err)
	}
	pause(t, left)
	tr.loses(t, "left")
	tr.waits(t, "explorer.share 2/2")
}

// An explorer that has ended, and is refused when it joins again with another share, has ended still.
func TestARefusedShareOpensNothing(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	left := sharing(at(tr), "left", Share{1, 1})
	resume(t, left)
	if err := left.Put(t.Context(), trinity.Delivery{Groups: group(1, 1)}); err != nil {
		t.Fatal(err)
	}
	if err := left.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, err := sharing(at(tr), "left", Share{1, 2}).Resume(t.Context())
	mention(t, err, "set explorer.share back")
	if got, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil || len(got) != 1 {
		t.Errorf("Take: %d experiences, %v; want the one that there is", len(got), err)
	}
	if who := tr.Explorers(); !strings.Contains(who, "has ended") {
		t.Error(who)
	}
}

// An explorer of a share that was given up may come back when the buffer is closed: nobody is expected any more.
func TestNobodyIsExpectedAtTheEnd(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	left := sharing(at(tr), "left", Share{1, 2})
	resume(t, left)
	resume(t, sharing(at(tr), "all", Share{1, 1}))
	tr.loses(t, "left")
	if err := tr.Buffer.Close(); err != nil {
		t.Fatal(err)
	}
	tr.known.byName["left"].lapsed = false
	if err := tr.settle(t.Context()); err != nil {
		t.Error(err)
	}
}
