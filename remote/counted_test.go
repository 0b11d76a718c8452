package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// deliver puts a delivery of a step with a cursor.
func deliver(t *testing.T, to trinity.Sink, step int64) {
	t.Helper()
	cursor, err := json.Marshal(map[string]int64{"step": step})
	if err == nil {
		err = to.Put(t.Context(), trinity.Delivery{Groups: group(step, 1), Cursor: cursor})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An explorer goes on after its last delivery, in which process it ever is: in the trainer's, in one of its own, and in the trainer's again.
func TestDeliveriesAreCountedInEveryMode(t *testing.T) {
	uncounted := func(tr *trainer) trinity.Sink { return tr.Buffer.Sink("left") } // of a run of before mode both counted
	both := func(tr *trainer) trinity.Sink { return Counting(tr.Buffer, "left") }
	explore := func(tr *trainer) trinity.Sink { return client("left", at(tr), time.Minute) }
	for name, modes := range map[string][]func(*trainer) trinity.Sink{
		"both":      {both, explore, both, explore},
		"explore":   {explore, both, explore, both},
		"uncounted": {uncounted, explore, both, explore},
		"one":       {uncounted, both, both},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, mode := range modes {
				step := int64(i) + 1
				tr := train(t, dir, fixed, 0)
				sink := mode(tr)
				cursor, err := sink.Resume(t.Context())
				if want := fmt.Sprintf(`{"step":%d}`, step-1); err != nil || string(cursor) != want && step > 1 {
					t.Fatalf("before step %d: cursor %s, %v; want %s", step, cursor, err, want)
				}
				deliver(t, sink, step)
				counts := step
				if slices.Contains([]string{"uncounted", "one"}, name) {
					counts--
				}
				if at, err := resumed(t.Context(), "left", tr.Buffer.Sink("left")); err != nil || at.Delivery != counts {
					t.Errorf("step %d is delivery %d, %v; want %d", step, at.Delivery, err, counts)
				}
				exps, err := tr.Buffer.Take(t.Context(), i+1, 0)
				if err != nil || len(exps) != i+1 || exps[i].ID.Step != step {
					t.Errorf("took %v, %v; want one of each of %d steps", exps, err, step)
				}
				tr.kill()
			}
		})
	}
}

// What is no cursor of an explorer is not taken for one at its beginning.
func TestACursorOfAnotherKind(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	if err := tr.Buffer.Sink("left").Put(t.Context(), trinity.Delivery{Groups: group(1, 1), Cursor: []byte(`{"taken":3}`)}); err != nil {
		t.Fatal(err)
	}
	_, joined := client("left", at(tr), time.Minute).Resume(t.Context())
	_, together := Counting(tr.Buffer, "left").Resume(t.Context())
	for _, err := range []error{joined, together} {
		mention(t, err, "the buffer's cursor of explorer left is of another kind of run", "taken", "give the run another name")
	}
}

// A trainer that takes up a run of mode both expects its explorer; one of another name is said to begin anew.
func TestAfterModeBoth(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	var said []string
	tr.Step, tr.Explorer, tr.Say = 3, "first", func(line string) { said = append(said, line) }
	if err := tr.recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.waits(t, "explorer first has not joined again")
	resume(t, client("left", at(tr), time.Minute))
	if !slices.ContainsFunc(said, func(line string) bool {
		return strings.Contains(line, "explorer left is new to this run, which goes on after step 3")
	}) {
		t.Errorf("said %q", said)
	}
}

// A run that goes on without explorers of other processes keeps nothing of what their trainer has told them.
func TestRetire(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	resume(t, client("left", at(tr), time.Minute))
	if err := errors.Join(tr.Publish(t.Context(), 1), (address{Ended: true}).write(tr.Dir)); err != nil {
		t.Fatal(err)
	}
	if names, err := Explorers(tr.Dir); err != nil || !slices.Equal(names, []string{"left"}) {
		t.Errorf("explorers %q, %v", names, err)
	}
	for range 2 {
		if err := Retire(tr.Dir, tr.Buffer); err != nil {
			t.Fatal(err)
		}
		if names, err := Explorers(tr.Dir); err != nil || len(names) > 0 {
			t.Errorf("explorers %q, %v, of those that are retired", names, err)
		}
	}
	left, err := os.ReadDir(tr.Dir)
	if err != nil || len(left) != 1 || left[0].Name() != "log" {
		t.Errorf("%v, %v are left; want the buffer's log alone", left, err)
	}
}
