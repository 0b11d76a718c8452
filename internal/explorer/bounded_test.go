package explorer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// deaf is a workflow that ignores its context.
type deaf struct{ run, compare time.Duration }

func (d deaf) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	time.Sleep(d.run)
	return onePull{}.Run(context.WithoutCancel(ctx), r)
}

func (d deaf) Compare(context.Context, *trinity.Rollout, trinity.Group) error {
	time.Sleep(d.compare)
	return nil
}

func TestWorkflowThatIgnoresItsContext(t *testing.T) {
	for _, c := range []struct {
		name     string
		workflow deaf
		failed   string
	}{
		{"returns within its patience", deaf{run: time.Minute + patience/2}, ""},
		{
			"does not return", deaf{run: time.Hour},
			"explorer.max_timeout of 1m0s passed, and 10s later the workflow had not returned: it ignores its context",
		},
		{"compares for ever", deaf{compare: time.Hour}, "comparing its group: explorer.max_timeout of 1m0s passed, and 10s later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(trinitytest.NewBandit(3))
				r.Timeout, r.MaxRetries = time.Minute, 0
				tasks, _ := newTaskset(1, 2, c.workflow).all()
				start := time.Now()
				outcomes, err := r.run(t.Context(), 1, tasks)
				if err != nil {
					t.Fatal(err)
				}
				failed := errors.Join(outcomes[0].failed...)
				if (failed == nil) != (c.failed == "") || failed != nil && !strings.Contains(failed.Error(), c.failed) {
					t.Errorf("failed: %v, want %q", failed, c.failed)
				}
				if (len(outcomes[0].group) == 2) != (c.failed == "") {
					t.Errorf("%d experiences are there", len(outcomes[0].group))
				}
				if waited := time.Since(start); waited > time.Minute+patience {
					t.Errorf("the runner waited for %v", waited)
				}
				time.Sleep(time.Hour) // the abandoned workflow returns
			})
		})
	}
}

// A stopped run abandons a workflow that ignores its context.
func TestStoppedRunAbandonsAWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errStopped) })
		r, w := newRunner(trinitytest.NewBandit(3)), deaf{run: time.Hour}
		tasks, _ := newTaskset(1, 2, w).all()
		if _, err := r.run(ctx, 1, tasks); !errors.Is(err, errStopped) {
			t.Errorf("the run ended with %v", err)
		}
		time.Sleep(time.Hour)
	})
}
