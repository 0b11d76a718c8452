package explorer

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// slow is a sampler whose calls take a minute, and counts them.
type slow struct {
	trinity.Sampler
	now, most atomic.Int64
}

func (s *slow) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	defer s.now.Add(-1)
	for n := s.now.Add(1); ; {
		most := s.most.Load()
		if n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	time.Sleep(time.Minute)
	return s.Sampler.Sample(ctx, prompt, p)
}

// thinker works for a while between two calls.
type thinker struct{ between time.Duration }

func (w thinker) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	if _, err := (onePull{}).Run(ctx, r); err != nil {
		return nil, err
	}
	select {
	case <-time.After(w.between):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return onePull{}.Run(ctx, r)
}

// While one rollout works between its calls, others call the model. Eight rollouts with two calls of
// a minute and nine minutes between them take 8·2 + 9 minutes at least with one slot; if a slot
// belonged to a rollout, they would take 8·11.
func TestRolloutsAtWorkHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bandit := trinitytest.NewBandit(3)
		s := &slow{Sampler: bandit}
		r := newRunner(bandit)
		r.Host, r.Slots, r.Timeout = host{sampler: s}, NewSlots(1, 8), time.Hour
		tasks, _ := newTaskset(2, 4, thinker{9 * time.Minute}).all()
		start := time.Now()
		outcomes, err := r.run(t.Context(), 1, tasks)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 25*time.Minute || s.most.Load() != 1 {
			t.Errorf("took %v, with %d calls at once", took, s.most.Load())
		}
		if m := rolloutMetrics(outcomes); m["failed_run_count"] != 0 || m["untrained_token_count/mean"] != 1 {
			t.Errorf("metrics %v", m)
		}
	})
}

// Waits for a slot do not count against max_timeout, and what is over it is counted as a timeout.
func TestWaitsForSlotsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bandit := trinitytest.NewBandit(3)
		r := newRunner(bandit)
		r.Host, r.Slots, r.Timeout, r.MaxRetries = host{sampler: &slow{Sampler: bandit}}, NewSlots(1, 8), 90*time.Second, 0
		tasks, _ := newTaskset(1, 8, onePull{}).all()
		outcomes, err := r.run(t.Context(), 1, tasks)
		if err != nil || len(outcomes[0].failed) > 0 {
			t.Fatal(err, outcomes[0].failed)
		}
		tasks, _ = newTaskset(1, 8, thinker{time.Minute}).all()
		if outcomes, err = r.run(t.Context(), 2, tasks); err != nil {
			t.Fatal(err)
		}
		m, failed := rolloutMetrics(outcomes), outcomes[0].failed
		if m["failed_timeout_count"] != 8 || !strings.Contains(failed[0].Error(), "max_timeout of 1m30s") {
			t.Errorf("metrics %v, failed %v", m, failed)
		}
	})
}
