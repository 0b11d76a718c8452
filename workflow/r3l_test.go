package workflow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// lock is an environment that takes three words. The reward is the share of good ones.
type lock struct {
	Forgets bool `yaml:"forgets"` // says something else in each episode
	opened  int
}

func init() {
	registry.Environments.Register("lock", "An environment for tests.", func() trinity.EnvironmentOpener { return &lock{} })
}

func (l *lock) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	l.opened++
	return &opening{lock: l, number: l.opened}, nil
}

type opening struct {
	*lock
	number int
	words  []string
}

func (o *opening) says(text string) trinity.Observation {
	if o.Forgets {
		text += fmt.Sprint(o.number)
	}
	return trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: text}}}
}

func (o *opening) Reset(context.Context, uint64) (trinity.Observation, error) {
	return o.says("Open!"), nil
}

func (o *opening) Step(_ context.Context, a trinity.Action) (trinity.Outcome, error) {
	o.words = append(o.words, a.Text)
	out := trinity.Outcome{Observation: o.says("after " + strings.Join(o.words, ",")), Done: len(o.words) == 3}
	if out.Done {
		good := 0.0
		for _, w := range o.words {
			if w == "good" {
				good++
			}
		}
		good /= 3
		out.Reward = &good
	}
	return out, nil
}

func (*opening) Close() error { return nil }

func TestR3L(t *testing.T) {
	const advice = `I see. {"retry_from": 2, "advice": "Be good."}`
	for _, c := range []struct {
		name    string
		eval    bool
		replies []string
		rewards string // of the experiences
		trained string // what training learns of each
		gain    float64
	}{
		{"retries from a reply on", false, []string{"good", "bad", "good", advice, "good", "good"}, "0.67 1 1",
			"good,bad,good | " + advice + " | good,good", 1. / 3},
		{"retries from the beginning", false, []string{"bad", "bad", "bad", `{"retry_from": 1, "advice": "Be good."}`, "good", "good", "bad"},
			"0 0.67 0.67", `bad,bad,bad | {"retry_from": 1, "advice": "Be good."} | good,good,bad`, 2. / 3},
		{"needs no retry", false, []string{"good", "good", "good"}, "1", "good,good,good", 0},
		{"is evaluated", true, []string{"bad", "bad", "bad"}, "0", "bad,bad,bad", 0},
		{"does not reflect", false, []string{"bad", "bad", "bad", "Who knows?"}, "0 0", "bad,bad,bad | Who knows?", 0},
		{"retries from nowhere", false, []string{"bad", "bad", "bad", `{"retry_from": 4, "advice": "x"}`}, "0 0",
			`bad,bad,bad | {"retry_from": 4, "advice": "x"}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := model(nil)
			s := &script{replies: c.replies}
			m.Sampler = s
			task := task()
			task.Eval = c.eval
			exps, err := build(t, "r3l_workflow", map[string]any{"environment": "lock"}).Run(t.Context(), rollout(task, m, nil))
			if err != nil {
				t.Fatal(err)
			}
			var rewards, trained []string
			for _, e := range exps {
				rewards = append(rewards, fmt.Sprintf("%.2g", e.Reward.Value))
				trained = append(trained, strings.Join(learnt(e), ","))
				if e.Check() != nil || !e.Reward.Valid {
					t.Errorf("%v, %+v", e.Check(), e.Reward)
				}
			}
			if got := strings.Join(rewards, " "); got != c.rewards {
				t.Errorf("rewards %s, want %s", got, c.rewards)
			}
			if got := strings.Join(trained, " | "); got != c.trained {
				t.Errorf("training learns %s, want %s", got, c.trained)
			}
			if s.made != len(c.replies) {
				t.Errorf("%d calls, want %d", s.made, len(c.replies))
			}
			if got := exps[0].Metrics["retry_gain"]; math.Abs(got-c.gain) > 1e-9 {
				t.Errorf("retry_gain %g, want %g", got, c.gain)
			}
			if len(exps) == 3 {
				text := plain{}.Decode(exps[2].Tokens)
				if strings.Count(text, "Advice from an earlier attempt: Be good.") != 1 || strings.Contains(text, "Reflect on your") {
					t.Errorf("the retry reads %q", text)
				}
			}
		})
	}
}

// learnt returns the runs of tokens that training learns.
func learnt(e *trinity.Experience) (runs []string) {
	for i := 0; i < len(e.Tokens); {
		end := i
		for end < len(e.Tokens) && e.Mask[end] == e.Mask[i] {
			end++
		}
		if e.Mask[i] {
			runs = append(runs, plain{}.Decode(slices.Clone(e.Tokens[i:end])))
		}
		i = end
	}
	return runs
}

// An environment that does not repeat itself fails the rollout: a retry would compare two tasks.
func TestR3LNeedsAnEnvironmentThatRepeatsItself(t *testing.T) {
	m := model(nil)
	m.Sampler = &script{replies: []string{"bad", "bad", "bad", `{"retry_from": 2, "advice": "x"}`}}
	args := map[string]any{"environment": "lock", "environment_args": map[string]any{"forgets": true}}
	_, err := build(t, "r3l_workflow", args).Run(t.Context(), rollout(task(), m, nil))
	var failed *trinity.RolloutError
	if !errors.As(err, &failed) || failed.Kind != trinity.FailedEnvironment || !strings.Contains(err.Error(), "lock does not repeat itself") {
		t.Errorf("%v", err)
	}
}
