package trainer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// teach asks each teacher for the log-probabilities of the tokens of its experiences, at the
// temperature of their sampling. Log-probabilities that the explorer recorded stay, and
// demonstrations need no teacher.
func (t *Trainer) teach(ctx context.Context, step int64, exps []*trinity.Experience, metrics trinity.Metrics) error {
	start := time.Now()
	pupils := map[string][]*trinity.Experience{}
	for _, e := range exps {
		if e.TeacherLogprobs == nil && !e.IsExpert {
			pupils[e.Teacher] = append(pupils[e.Teacher], e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pupils)) {
		teacher, ok := t.opts.Teachers[name]
		if !ok {
			return fmt.Errorf("experience %s names teacher %q, and explorer.auxiliary_models has no such name", pupils[name][0].ID, name)
		}
		keep := func(e *trinity.Experience, s trinity.TokenStats) { e.TeacherLogprobs = s.Logprob }
		if err := t.each(ctx, step, teacher, trinity.Streams{}, pupils[name], keep); err != nil {
			return fmt.Errorf("teacher %q: %w", name, err)
		}
	}
	t.passed(step, "teacher_log_probs", start, metrics)
	return nil
}
