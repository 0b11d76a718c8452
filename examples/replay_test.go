package examples

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/view"
	"github.com/trinity-go/trinity/trinitytest"
)

// The last step of every example of an algorithm has the same bits when it is trained again from the checkpoint two steps before.
func TestAlgorithmsReplay(t *testing.T) {
	trinitytest.Long(t, "trains with every algorithm", trained...)
	t.Chdir("..")
	model := warmUp(t)
	paths, err := filepath.Glob("examples/algorithms/*.yaml")
	if err != nil || len(paths) <= len(algorithms()) {
		t.Fatal(paths, err)
	}
	names := []string{teacher}
	for _, path := range paths {
		if name := strings.TrimSuffix(filepath.Base(path), ".yaml"); name != teacher {
			names = append(names, name)
		}
	}
	for _, algorithm := range names {
		t.Run(algorithm, func(t *testing.T) {
			overrides := []string{"stages.1.buffer.total_steps=6", "stages.1.trainer.save_interval=4"}
			step, from := int64(6), int64(4)
			if algorithm == teacher { // others learn from its last checkpoint
				overrides, step, from = []string{"stages.1.trainer.save_interval=58"}, 60, 58
			} else {
				t.Parallel()
			}
			name := "algorithms_" + algorithm
			model.learn(t, algorithm, name, overrides...)
			dir := filepath.Join(model.dir, "trinity-examples", name, "learn")
			record, err := view.ReadRecord(dir, step)
			if err != nil {
				t.Fatal(err)
			}
			replayed, err := run.Replay(t.Context(), dir, run.ReplayOptions{Step: step, Say: func(line string) { t.Log(line) }})
			if err != nil {
				t.Fatal(err)
			}
			if replayed.From != from {
				t.Errorf("from step %d, want %d", replayed.From, from)
			}
			var out strings.Builder
			difference, err := record.Compare(&out, replayed.Again.Metrics, trace.Rows(replayed.Again.Trained))
			if err != nil || difference != nil || len(record.Rows) == 0 {
				t.Errorf("%d rows: %v, %v\n%s", len(record.Rows), difference, err, out.String())
			}
		})
	}
}
