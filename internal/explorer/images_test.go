package explorer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// A task gets its images once, before its first rollout. Rollouts of a row whose images cannot be read fail without
// another attempt, and so do those of a workflow that shows none.
func TestTasksGetTheirImagesOnce(t *testing.T) {
	var reads, runs atomic.Int32
	ts := newTaskset(3, 4, onePull{before: func(_ context.Context, task *trinity.Task, _ int) error {
		if runs.Add(1); !slices.Equal(task.Images, []string{fmt.Sprint("of ", task.Index)}) && task.Index > 0 {
			return fmt.Errorf("task %d has the images %q", task.Index, task.Images)
		}
		return nil
	}})
	ts.Images = func(row int) ([]string, error) {
		reads.Add(1)
		switch row {
		case 0:
			return []string{}, nil
		case 1:
			return []string{"of 1"}, nil
		}
		return nil, errors.New("rows.jsonl:3: it is cut")
	}
	tasks, err := ts.all()
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := newRunner(trinitytest.NewBandit(2)).run(t.Context(), 1, tasks)
	if err != nil {
		t.Fatal(err)
	}
	if reads.Load() != 3 || runs.Load() != 8 {
		t.Errorf("the images of 3 rows were read %d times, and 12 rollouts made %d attempts, want 3 and 8", reads.Load(), runs.Load())
	}
	for i, want := range []string{"", "shows the policy none", "rows.jsonl:3: it is cut"} {
		failed := outcomes[i].failed
		if want == "" && len(outcomes[i].group) != 4 || want != "" && (len(failed) != 4 || !strings.Contains(failed[0].Error(), want)) {
			t.Errorf("task %d: %d experiences, %v, want %q", i, len(outcomes[i].group), failed, want)
		}
	}
}

// The tasks of a pack get their own images, and the pack has those of its first task.
func TestPacksGetImages(t *testing.T) {
	ts := newTaskset(4, 1, onePull{})
	ts.Packing = Packing{Size: 2}
	ts.Images = func(row int) ([]string, error) { return []string{fmt.Sprint(row)}, nil }
	packs, err := ts.all()
	if err != nil {
		t.Fatal(err)
	}
	if err := packs[1].see(); err != nil {
		t.Fatal(err)
	}
	pack := packs[1].Task
	if got := fmt.Sprint(pack.Images, pack.Pack[0].Images, pack.Pack[1].Images); got != "[2] [2] [3]" {
		t.Errorf("images %s, want [2] [2] [3]", got)
	}
}
