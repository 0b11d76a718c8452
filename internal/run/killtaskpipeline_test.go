package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
)

// A process that is killed at any write of a task pipeline leaves no partial taskset. The next
// process makes or finds it, and the run is the same as without a kill.
func TestAKilledTaskPipelineLeavesNoPartialTaskset(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a dozen processes: not in -short")
	}
	t.Parallel()
	overrides := []string{"buffer.total_steps=1", noEvaluation}
	whole := newProject(t, tiny, prepared)
	whole.start(t, nil, overrides...).finish(t)
	made := filepath.Join("made", "output.jsonl")
	want := read(t, filepath.Join(whole.dir, made))
	before := 0 // kills before the taskset was complete
	for hit := 1; hit <= 34; hit += 3 {
		p := whole.copyOf(t)
		if err := os.RemoveAll(filepath.Join(p.dir, "made")); err != nil {
			t.Fatal(err)
		}
		if !p.start(t, []string{failpoint.Variable + fmt.Sprintf("=*=kill@%d", hit)}, overrides...).killedWithin(t, 0) {
			t.Fatalf("the run was not killed at write %d", hit)
		}
		switch left := filepath.Join(p.dir, made); {
		case !exists(left):
			before++
		case read(t, left) != want:
			t.Errorf("killed at write %d: the taskset differs from that of a run without a kill", hit)
		}
		p.start(t, nil, overrides...).finish(t)
		if got := read(t, filepath.Join(p.dir, made)); got != want {
			t.Errorf("killed at write %d and started again: the taskset differs", hit)
		}
		results(t, p.dir).sameAs(t, results(t, whole.dir))
	}
	if before < 2 || before == 12 {
		t.Errorf("%d of 12 kills came before the taskset was complete: want some before and some after", before)
	}
}
