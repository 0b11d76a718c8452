package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"github.com/trinity-go/trinity/trinitytest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// deliver puts a delivery of a step, with a cursor.
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

// An explorer resumes after its last delivery when it moves between the trainer's process and a
// process of its own.
func TestResumeInAnotherMode(t *testing.T) {
	both := func(tr *trainer) trinity.Sink { return tr.Buffer.Sink("left") }
	explore := func(tr *trainer) trinity.Sink { return client("left", at(tr), time.Minute) }
	for name, modes := range map[string][]func(*trainer) trinity.Sink{
		"both":    {both, explore, both, explore},
		"explore": {explore, both, explore, both},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, mode := range modes {
				step := int64(i) + 1
				tr := train(t, dir, fixed, 0)
				sink := mode(tr)
				_, cursor, err := sink.Resume(t.Context())
				if want := fmt.Sprintf(`{"step":%d}`, step-1); err != nil || string(cursor) != want && step > 1 {
					t.Fatalf("before step %d: cursor %s, %v; want %s", step, cursor, err, want)
				}
				deliver(t, sink, step)
				if n, _, err := tr.Buffer.Sink("left").Resume(t.Context()); err != nil || n != step {
					t.Errorf("step %d is delivery %d, %v", step, n, err)
				}
				exps, err := trinitytest.Take(t.Context(), tr.Buffer, i+1, 0)
				if err != nil || len(exps) != i+1 || exps[i].ID.Step != step {
					t.Errorf("took %v, %v; want one of each of %d steps", exps, err, step)
				}
				tr.kill()
			}
		})
	}
}

// A trainer that resumes a run of mode both expects the run's explorer. It reports that an explorer
// of another name begins with its first rows.
func TestResumeAfterModeBoth(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	var said []string
	tr.Step, tr.Explorer, tr.Say = 3, "first", func(line string) { said = append(said, line) }
	if err := tr.recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.waits(t, "explorer first has not joined again")
	resume(t, client("left", at(tr), time.Minute))
	if !slices.ContainsFunc(said, func(line string) bool {
		return strings.Contains(line, "explorer left is new to this run, which resumes after step 3")
	}) {
		t.Errorf("said %q", said)
	}
}

// RemoveFiles removes the address, the names and the weights, and keeps the buffer's log.
func TestRemoveFiles(t *testing.T) {
	tr := train(t, t.TempDir(), fixed, 0)
	resume(t, client("left", at(tr), time.Minute))
	if err := errors.Join(tr.Publish(t.Context(), 1), (address{Ended: true}).write(tr.Dir)); err != nil {
		t.Fatal(err)
	}
	if names, err := Explorers(tr.Dir); err != nil || !slices.Equal(names, []string{"left"}) {
		t.Errorf("explorers %q, %v", names, err)
	}
	for range 2 {
		if err := RemoveFiles(tr.Dir); err != nil {
			t.Fatal(err)
		}
		if names, err := Explorers(tr.Dir); err != nil || len(names) > 0 {
			t.Errorf("explorers %q, %v, after RemoveFiles", names, err)
		}
	}
	left, err := os.ReadDir(tr.Dir)
	if err != nil || len(left) != 1 || left[0].Name() != "log" {
		t.Errorf("%v, %v are left; want the buffer's log alone", left, err)
	}
}
