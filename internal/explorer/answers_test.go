package explorer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// keeping is a recorder that keeps the rows of the answers.
type keeping struct {
	telling
	mu    sync.Mutex
	rows  []int
	fail  error
	whole bool // the evaluation has ended
}

func (k *keeping) Answered(_ int64, task *trinity.Task, group trinity.Group, _ []error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows = append(k.rows, task.Index)
	if len(group) != task.GroupSize {
		return fmt.Errorf("row %d has %d answers", task.Index, len(group))
	}
	return k.fail
}

func (k *keeping) Evaluated(int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.whole = true
	return nil
}

func (k *keeping) kept() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprint(k.rows)
}

// The recorder gets answers as they come, in the order of the rows. An evaluation that is cut also hands over the
// rows that have ended after one that has not.
func TestAnswersComeInTheOrderOfRows(t *testing.T) {
	for name, cut := range map[string]bool{"whole": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				slow := make(chan struct{})
				set := newTaskset(4, 2, onePull{before: func(ctx context.Context, task *trinity.Task, _ int) error {
					if task.Index == 1 {
						select {
						case <-slow:
						case <-ctx.Done():
							return context.Cause(ctx)
						}
					}
					return nil
				}})
				set.Template.Eval = true
				keeper, ended := &keeping{}, make(chan error, 1)
				r := newRunner(trinitytest.NewBandit(3))
				r.Timeout = time.Minute
				go func() {
					_, err := Evaluate(ctx, r, keeper, []*Taskset{set}, 0, "")
					ended <- err
				}()
				synctest.Wait() // all rows but the slow one have ended
				if got := keeper.kept(); got != "[0]" {
					t.Errorf("while row 1 runs, the recorder has %s", got)
				}
				stopped := errors.New("stopped")
				want := "[0 1 2 3]"
				if cut {
					cancel(stopped)
					want = "[0 2 3]"
				}
				close(slow)
				if err := <-ended; cut != errors.Is(err, stopped) || !cut && err != nil {
					t.Error(err)
				}
				if got := keeper.kept(); got != want {
					t.Errorf("the recorder has %s, want %s", got, want)
				}
				if keeper.whole == cut {
					t.Errorf("the recorder heard of the end: %v", keeper.whole)
				}
			})
		})
	}
}

// A recorder that can keep no more ends the evaluation.
func TestAnswersThatCannotBeKept(t *testing.T) {
	full := errors.New("the disk is full")
	_, err := Evaluate(t.Context(), newRunner(trinitytest.NewBandit(3)), &keeping{fail: full}, []*Taskset{newTaskset(4, 2, onePull{})}, 0, "")
	if !errors.Is(err, full) {
		t.Error(err)
	}
}
