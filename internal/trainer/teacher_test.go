package trainer

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
)

// Every experience gets log-probabilities from the teacher that it names, with any micro-batches.
// Recorded log-probabilities stay, and demonstrations get none.
func TestTeachers(t *testing.T) {
	first, second := trinitytest.NewBandit(6), trinitytest.NewBandit(6)
	first.Weights[1], second.Weights[0] = 3, 3
	for _, tokens := range []int{2, 1000} {
		o, _, logged := newOptions(t, 1, new([]int64))
		group := scored(8)
		for i, e := range group {
			e.Teacher = []string{"", "second"}[i/4]
		}
		recorded := []float32{0, -7}
		group[0].TeacherLogprobs, group[1].IsExpert = recorded, true
		q := buffer.NewQueue(8, 0, nil)
		if err := q.Sink("").Put(t.Context(), trinity.Delivery{Groups: []trinity.Group{group}}); err != nil {
			t.Fatal(err)
		}
		o.Source, o.MicroTokens, o.TotalSteps = q, tokens, 1
		o.Teachers = map[string]engine.Trainer{"": first, "second": second}
		if err := New(*o).Run(t.Context(), t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, e := range group {
			switch {
			case i == 0:
				if &e.TeacherLogprobs[0] != &recorded[0] {
					t.Error("a teacher replaced the recorded log-probabilities")
				}
			case i == 1:
				if e.TeacherLogprobs != nil {
					t.Error("a demonstration has log-probabilities of a teacher")
				}
			default:
				likely := (i < 4) == (e.Tokens[1] == 1)
				if got := e.TeacherLogprobs[1]; (got > -1) != likely || e.TeacherLogprobs[0] != 0 || math.IsNaN(float64(got)) {
					t.Errorf("experience %d, token %d: %v", i, e.Tokens[1], e.TeacherLogprobs)
				}
			}
		}
		if (*logged)[0]["time/teacher_log_probs"] <= 0 {
			t.Errorf("metrics %v", (*logged)[0])
		}
	}
}

func TestUnknownTeacher(t *testing.T) {
	o, _, _ := newOptions(t, 1, new([]int64))
	o.Teachers = map[string]engine.Trainer{"a": trinitytest.NewBandit(6)}
	err := New(*o).Run(t.Context(), t.Context())
	if err == nil || !strings.Contains(err.Error(), `names teacher "", and explorer.auxiliary_models has no such name`) {
		t.Error(err)
	}
}

// described is a source with metrics.
type described struct{ trinity.Source }

func (d described) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := d.Source.Take(ctx, want)
	taken.Metrics = trinity.Metrics{"sample/task_count": 3}
	return taken, err
}

func TestMetricsOfTheSource(t *testing.T) {
	o, _, logged := newOptions(t, 1, new([]int64))
	o.Source = described{o.Source}
	if err := New(*o).Run(t.Context(), t.Context()); err != nil || (*logged)[0]["sample/task_count"] != 3 {
		t.Errorf("%v, %v", (*logged)[0], err)
	}
}
