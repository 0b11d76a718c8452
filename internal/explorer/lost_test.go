package explorer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// talker is a sampler of replies with several tokens, one each second. It counts all tokens that it
// samples.
type talker struct{ sampled atomic.Int64 }

func (s *talker) Sample(ctx context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	c := trinity.Completion{FinishReason: "stop"}
	if p.OnToken != nil {
		return nil, errors.New("nobody streams this reply, and a server could not ask for it again")
	}
	for range 1 + p.Seed%7 {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c.Tokens, c.Logprobs = append(c.Tokens, 'x'), append(c.Logprobs, -1)
		s.sampled.Add(1)
		p.OnSampled(0, trinity.Sampled{Token: 'x'})
	}
	return []trinity.Completion{c}, nil
}

// erratic does in each rollout what its seed says: calls at once, forks, calls that it cancels,
// replies that it returns or leaves out, failures.
type erratic struct{}

func (erratic) Run(ctx context.Context, r *trinity.Rollout) (out []*trinity.Experience, err error) {
	rng := rand.New(rand.NewPCG(r.Model.Params.Seed, 1))
	var mu sync.Mutex
	var calls sync.WaitGroup
	for range rng.IntN(4) {
		patience, wanted := time.Duration(1+rng.IntN(9))*time.Second+time.Millisecond, rng.IntN(3) > 0
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			e, failed := r.Model.Generate(ctx, []int32{1, 2})
			mu.Lock()
			defer mu.Unlock()
			if failed == nil && wanted {
				out = append(out, e)
			}
		})
	}
	d := r.Model.Dialogue(nil)
	for range rng.IntN(4) {
		d.Add(trinity.Message{Role: "user", Content: "go on"})
		if _, err = d.Reply(ctx); err != nil {
			break
		}
		if rng.IntN(3) == 0 {
			fork := d.Fork()
			fork.Add(trinity.Message{Role: "user", Content: "or else"})
			if _, err = fork.Reply(ctx); err != nil {
				break
			}
			if rng.IntN(2) == 0 {
				mu.Lock()
				out = append(out, fork.Whole()...)
				mu.Unlock()
			}
		}
	}
	calls.Wait()
	switch rng.IntN(3) {
	case 0:
		out = append(out, d.Whole()...)
	case 1:
		out = append(out, d.Steps()...)
	}
	for _, e := range out {
		e.Reward = trinity.NewReward(map[string]float64{"a": 1})
	}
	if err == nil && rng.IntN(4) == 0 {
		err = errors.New("gone")
	}
	return out, err
}

// erraticGroup drops some groups when it compares their rollouts.
type erraticGroup struct{ erratic }

func (erraticGroup) Compare(_ context.Context, r *trinity.Rollout, _ trinity.Group) error {
	if r.Seed%3 == 0 {
		return errors.New("no comparison")
	}
	return nil
}

// Every sampled token is in one returned experience, where training learns it, or is counted under a
// reason.
func TestEveryTokenIsTrainedOrCounted(t *testing.T) {
	reasons := map[string]float64{}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			sampler := &talker{}
			r := newRunner(trinitytest.NewBandit(2))
			r.Seed, r.Host, r.MaxRetries, r.Greedy = seed, host{sampler: sampler}, rng.IntN(3), rng.IntN(2) == 0
			r.Timeout, r.Slots = time.Duration(5+rng.IntN(40))*time.Second+time.Microsecond, NewSlots(1+rng.IntN(6), 1+rng.IntN(12))
			r.Over = OverRollout{Ratio: float64(rng.IntN(2)) / 2, Wait: time.Second, Partial: rng.IntN(2) == 0}
			tasks, err := newTaskset(6, 3, erraticGroup{}).all()
			if err != nil {
				t.Fatal(err)
			}
			outcomes, err := r.run(t.Context(), 1, tasks)
			if err != nil {
				t.Fatal(err)
			}
			trained, untrained := 0, 0.0
			for _, o := range outcomes {
				for _, e := range o.group {
					trained += e.TrainedTokens()
					untrained += e.Metrics["untrained_token_count"]
				}
			}
			m := rolloutMetrics(outcomes)
			counted := untrained
			for _, reason := range []string{"failed", "cancelled", "dropped"} {
				counted += m[reason+"_token_count"]
				reasons[reason] += m[reason+"_token_count"]
			}
			reasons["untrained"] += untrained
			reasons["trained"] += float64(trained)
			if got, want := trained+int(counted), int(sampler.sampled.Load()); got != want {
				t.Errorf("seed %d: %d tokens are trained and %v counted, %d were sampled: %v", seed, trained, counted, want, fmt.Sprint(m))
			}
		})
	}
	for _, reason := range []string{"trained", "untrained", "failed", "cancelled", "dropped"} {
		if reasons[reason] == 0 {
			t.Errorf("no token is %s: the property says nothing of it", reason)
		}
	}
}
