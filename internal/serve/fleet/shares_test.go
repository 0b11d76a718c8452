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

// While the second of two explorers has not joined, the trainer does not take the experiences of
// the first for all that there are. A kill does not change that.
func TestTrainerWaitsForAllShares(t *testing.T) {
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
	resume(t, right) // the request says that right is paused
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

// A missing explorer keeps the trainer waiting even if explorers of other divisions have joined.
func TestTrainerWaitsForEachDivision(t *testing.T) {
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

	left.Share, mid.Share = Share{1, 1}, Share{1, 1} // all shares had an explorer before
	for _, c := range []*Client{left, mid} {
		resume(t, c)
		pause(t, c)
	}
	if _, err := trinitytest.Take(t.Context(), tr.Buffer, 2, 0); err != nil {
		t.Error(err)
	}
}

// The trainer does not wait for an incomplete division whose explorers have lost their leases.
func TestLostDivision(t *testing.T) {
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

// The trainer refuses a share that another explorer has, and a share other than the one whose rows
// the explorer's cursor counts: no row is explored twice.
func TestRefusedShares(t *testing.T) {
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
		mention(t, err, "explorer left (host ",
			"has the share 1/2 of the same rows: give this one another explorer.share, or the explorer.name left")
	}
	refused()
	resume(t, others)
	left.Share = Share{2, 2} // left has explored nothing
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

func TestAnotherAlgorithmIsRefused(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	tr.Algorithm = "grpo"
	c := client("explorer", at(tr), time.Minute)
	c.Algorithm = "raft"
	_, _, err := c.Resume(t.Context())
	mention(t, err, "algorithm.algorithm_type of the explorer is raft, and of the trainer grpo")
}

// An explorer that has closed keeps its share.
func TestClosedExplorerKeepsItsShare(t *testing.T) {
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

func TestInvalidShares(t *testing.T) {
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

// waits fails the test if the trainer gets a batch, or if it does not report text.
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

// loses makes an explorer's lease expire.
func (tr *trainer) loses(t *testing.T, name string) {
	t.Helper()
	tr.known.mu.Lock()
	tr.known.byName[name].heard = time.Now().Add(-tr.Lease)
	tr.lapse()
	tr.known.mu.Unlock()
	if err := tr.updateLapsed(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// If the only explorer loses its lease, the trainer waits for it and for those that are yet to
// join.
func TestTrainerWaitsForALostExplorer(t *testing.T) {
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

// An explorer that has closed stays closed if it joins again with a share that the trainer refuses.
func TestRefusedShareKeepsTheSinkClosed(t *testing.T) {
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
		t.Errorf("the trainer says %q of its explorers", who)
	}
}

// An explorer may come back after its lease has expired and the buffer is closed. The trainer then
// waits for nobody.
func TestExplorerComesBackAtTheEnd(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	left := sharing(at(tr), "left", Share{1, 2})
	resume(t, left)
	resume(t, sharing(at(tr), "all", Share{1, 1}))
	tr.loses(t, "left")
	if err := tr.Buffer.Close(); err != nil {
		t.Fatal(err)
	}
	tr.known.byName["left"].lapsed = false
	if err := tr.updateLapsed(t.Context()); err != nil {
		t.Error(err)
	}
}
