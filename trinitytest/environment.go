package trinitytest

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// EnvironmentOptions say how to try an environment.
type EnvironmentOptions struct {
	Task *trinity.Task
	// Act returns the action of turn i in answer to what the policy saw. The same actions must lead
	// to an end within 1,000 turns.
	Act func(i int, seen trinity.Observation) trinity.Action
}

// Environment tests what each environment must do: equal seeds give equal episodes, also after a
// reset and beside another episode; an episode ends; a call whose context has ended returns; and
// Close may come at any point.
func Environment(t *testing.T, o EnvironmentOptions, opener trinity.EnvironmentOpener) {
	open := func(t *testing.T) trinity.Environment {
		t.Helper()
		env, err := opener.OpenEnvironment(t.Context(), o.Task)
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	shut := func(t *testing.T, env trinity.Environment) {
		t.Helper()
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Run("equal seeds give equal episodes", func(t *testing.T) {
		env, other := open(t), open(t)
		defer shut(t, env)
		defer shut(t, other)
		want := o.play(t, env, 7)
		if got := o.play(t, env, 7); !reflect.DeepEqual(got, want) {
			t.Errorf("after a reset:\n got %+v\nwant %+v", got, want)
		}
		if got := o.play(t, other, 7); !reflect.DeepEqual(got, want) {
			t.Errorf("in another environment:\n got %+v\nwant %+v", got, want)
		}
	})
	t.Run("a reused environment begins anew", func(t *testing.T) {
		env, ok := open(t).(trinity.Reusable)
		if !ok {
			t.Skip("it is opened for each episode")
		}
		defer shut(t, env)
		want := o.play(t, env, 7)
		if _, err := env.Reset(t.Context(), 8); err != nil { // an episode that a limit cuts off
			t.Error(err)
		}
		if err := env.Reuse(t.Context(), o.Task); err != nil {
			t.Fatal(err)
		}
		if got := o.play(t, env, 7); !reflect.DeepEqual(got, want) {
			t.Errorf("after a reuse:\n got %+v\nwant %+v", got, want)
		}
	})
	t.Run("two at once", func(t *testing.T) {
		want := map[uint64][]trinity.Outcome{}
		for _, seed := range []uint64{1, 2} {
			env := open(t)
			want[seed] = o.play(t, env, seed)
			shut(t, env)
		}
		var wg sync.WaitGroup
		for _, seed := range []uint64{1, 2, 1, 2} {
			env := open(t)
			wg.Go(func() {
				defer env.Close()
				if got := o.play(t, env, seed); !reflect.DeepEqual(got, want[seed]) {
					t.Errorf("seed %d:\n got %+v\nwant %+v", seed, got, want[seed])
				}
			})
		}
		wg.Wait()
	})
	t.Run("an ended context ends a call", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		env := open(t)
		_, _ = env.Reset(ended, 1) // an error or not, it returns
		shut(t, env)
		env = open(t)
		seen, err := env.Reset(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = env.Step(ended, o.Act(0, seen))
		shut(t, env)
	})
	t.Run("close before a reset", func(t *testing.T) { shut(t, open(t)) })
}

// play plays an episode and returns its outcomes; the first has what Reset gave.
func (o EnvironmentOptions) play(t *testing.T, env trinity.Environment, seed uint64) []trinity.Outcome {
	t.Helper()
	seen, err := env.Reset(t.Context(), seed)
	if err != nil {
		t.Error(err)
		return nil
	}
	if len(seen.Messages) == 0 {
		t.Error("the environment begins without a message")
	}
	episode := []trinity.Outcome{{Observation: seen}}
	for i := range 1000 {
		out, err := env.Step(t.Context(), o.Act(i, seen))
		if err != nil {
			t.Error(err)
			return episode
		}
		episode = append(episode, out)
		if out.Done || out.Truncated {
			return episode
		}
		if len(out.Messages) == 0 {
			t.Errorf("turn %d: the environment says nothing and does not end the episode", i)
		}
		seen = out.Observation
	}
	t.Error("the episode has not ended after 1,000 turns")
	return episode
}
