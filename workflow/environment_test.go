package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// stage is an environment whose behaviour a test writes.
type stage struct {
	Fails string `yaml:"fails"` // open, reset, step, hang, silent
	Turns int    `yaml:"turns"`
	Cut   bool   `yaml:"cut"`  // truncates instead of ending
	Bare  bool   `yaml:"bare"` // gives no rewards
}

var (
	closed  atomic.Int64 // environments that were closed
	playing atomic.Int64 // episodes under way
	most    atomic.Int64 // of them at once
)

func init() {
	registry.Environments.Register("stage", "An environment for tests.", func() trinity.EnvironmentOpener { return &stage{Turns: 3} })
}

func (s *stage) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	if s.Fails == "open" {
		return nil, errors.New("no stage")
	}
	return &act{stage: s}, nil
}

type act struct {
	*stage
	turn int
	seed uint64
}

func (a *act) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	if a.Fails == "reset" {
		return trinity.Observation{}, errors.New("no curtain")
	}
	a.seed = seed
	most.Store(max(most.Load(), playing.Add(1)))
	return trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: fmt.Sprint("begin ", seed)}}, State: "s0"}, nil
}

func (a *act) Step(ctx context.Context, action trinity.Action) (trinity.Outcome, error) {
	a.turn++
	switch a.Fails {
	case "step":
		return trinity.Outcome{}, errors.New("the lights went out")
	case "hang":
		<-ctx.Done()
		return trinity.Outcome{}, ctx.Err()
	case "silent":
		return trinity.Outcome{}, nil
	}
	time.Sleep(time.Second)
	end := a.turn == a.Turns
	out := trinity.Outcome{Done: end && !a.Cut, Truncated: end && a.Cut, Metrics: map[string]float64{"acts": float64(a.turn)}}
	out.Messages, out.State = []trinity.Message{{Role: "user", Content: "heard " + action.Text}}, fmt.Sprint("s", a.turn)
	if !a.Bare {
		reward := float64(a.turn)
		out.Reward, out.Parts = &reward, map[string]float64{"acts": 1}
	}
	return out, nil
}

func (a *act) Close() error {
	closed.Add(1)
	playing.Add(-1)
	return nil
}

func play(t *testing.T, name string, args map[string]any, reward trinity.RewardFunc) ([]*trinity.Experience, error) {
	t.Helper()
	with := map[string]any{"environment": "stage"}
	for k, v := range args {
		with[k] = v
	}
	r := rollout(task(), model(&parrot{says: "ok"}), reward)
	r.Seed = 9
	return build(t, name, with).Run(t.Context(), r)
}

func TestEpisodeIsOneSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exps, err := play(t, "environment_workflow", nil, nil)
		if err != nil || len(exps) != 1 {
			t.Fatal(err, len(exps))
		}
		e := exps[0]
		const want = "user: begin 9\nassistant: ok\nuser: heard ok\nassistant: ok\nuser: heard ok\nassistant: ok"
		if got := (plain{}).Decode(e.Tokens); got != want {
			t.Errorf("got %q", got)
		}
		if e.TrainedTokens() != 6 || e.Reward.Value != 6 || !e.Reward.Valid || e.Reward.Parts["acts"] != 3 ||
			e.Metrics["turns"] != 3 || e.Metrics["acts"] != 3 {
			t.Errorf("%d tokens, %+v, %v", e.TrainedTokens(), e.Reward, e.Metrics)
		}
		if e.Truncated != trinity.NotTruncated {
			t.Errorf("truncated: %s", e.Truncated)
		}
	})
}

func TestStepsOfAnEpisodeHaveRewards(t *testing.T) {
	for propagation, want := range map[string][3]float64{
		"last": {6, 6, 6}, "own": {1, 2, 3}, "discounted": {1 + 0.5*(2+0.5*3), 2 + 0.5*3, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			steps, err := play(t, "step_wise_workflow", map[string]any{"reward_propagation": propagation, "gamma": 0.5}, nil)
			if err != nil || len(steps) != 3 {
				t.Fatal(err, len(steps))
			}
			for i, s := range steps {
				if s.Reward.Value != want[i] || !s.Reward.Valid {
					t.Errorf("%s, step %d: reward %v, want %v", propagation, i, s.Reward, want[i])
				}
				if s.Info["step_reward"] != float64(i+1) || s.Info["env_state_hash"] != fmt.Sprint("s", i) || s.TrainedTokens() != 2 {
					t.Errorf("%s, step %d: %v, %d tokens", propagation, i, s.Info, s.TrainedTokens())
				}
			}
		})
	}
}

func TestLimitsTruncateAnEpisode(t *testing.T) {
	for _, c := range []struct {
		args   map[string]any
		reward trinity.RewardFunc
		want   trinity.Truncation
		value  float64
		valid  bool
	}{
		{map[string]any{"max_turns": 2}, nil, trinity.TurnsTruncated, 3, true},
		{map[string]any{"environment_args": map[string]any{"cut": true}}, nil, trinity.TurnsTruncated, 6, true},
		{map[string]any{"max_turns": 2, "unfinished_reward": -1, "environment_args": map[string]any{"bare": true}}, nil,
			trinity.TurnsTruncated, -1, true},
		{map[string]any{"environment_args": map[string]any{"bare": true}}, nil, trinity.NotTruncated, 0, false},
		{map[string]any{"environment_args": map[string]any{"bare": true}}, &echo{}, trinity.NotTruncated, 1.5, true},
		{nil, &echo{}, trinity.NotTruncated, 1.5, true},
	} {
		for _, name := range []string{"environment_workflow", "step_wise_workflow"} {
			synctest.Test(t, func(t *testing.T) {
				exps, err := play(t, name, c.args, c.reward)
				if err != nil {
					t.Fatal(err)
				}
				last := exps[len(exps)-1]
				if last.Truncated != c.want || last.Reward.Valid != c.valid || last.Reward.Value != c.value {
					t.Errorf("%s %v: %s, %+v", name, c.args, last.Truncated, last.Reward)
				}
				if e, ok := c.reward.(*echo); ok && (e.got.Response != "ok" || len(e.got.Messages) != 6) {
					t.Errorf("%s %v: scored %q of %d messages", name, c.args, e.got.Response, len(e.got.Messages))
				}
			})
		}
	}
}

func TestTheTokensOfARolloutTruncateAnEpisode(t *testing.T) {
	for _, name := range []string{"environment_workflow", "step_wise_workflow"} {
		synctest.Test(t, func(t *testing.T) {
			m := model(&parrot{says: "ok"})
			m.MaxTokens = 4
			w := build(t, name, map[string]any{"environment": "stage"})
			exps, err := w.Run(t.Context(), rollout(task(), m, nil))
			if err != nil {
				t.Fatal(err)
			}
			if last := exps[len(exps)-1]; last.Truncated != trinity.TokensTruncated || !last.Reward.Valid || m.SampledTokens() != 4 {
				t.Errorf("%s: %q, %+v, %d tokens", name, last.Truncated, last.Reward, m.SampledTokens())
			}
		})
	}
}

// An environment that fails is a failure of its kind, and is closed.
func TestBrokenEnvironmentFailsTheRollout(t *testing.T) {
	for fails, want := range map[string]string{
		"open": "environment stage does not open: no stage", "reset": "environment stage does not reset: no curtain",
		"step": "environment stage does not step: the lights went out", "silent": "it says nothing and does not end the episode",
		"hang": "environment stage does not step: step_timeout of 5s passed",
	} {
		synctest.Test(t, func(t *testing.T) {
			before := closed.Load()
			_, err := play(t, "environment_workflow", map[string]any{"step_timeout": 5, "environment_args": map[string]any{"fails": fails}}, nil)
			var of *trinity.RolloutError
			if !errors.As(err, &of) || of.Kind != trinity.FailedEnvironment || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", fails, err, want)
			}
			if n := closed.Load() - before; (n == 1) == (fails == "open") {
				t.Errorf("%s: closed %d times", fails, n)
			}
		})
	}
}

func TestConcurrentEpisodesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		playing.Store(0)
		most.Store(0)
		w := build(t, "environment_workflow", map[string]any{"environment": "stage", "max_concurrent": 2})
		failed := make(chan error)
		for range 6 {
			go func() {
				_, err := w.Run(t.Context(), rollout(task(), model(&parrot{says: "ok"}), nil))
				failed <- err
			}()
		}
		for range 6 {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d episodes at once, want 2", most.Load())
		}
	})
}

// garbled writes calls that nobody can read.
type garbled struct{ plain }

func (garbled) Read([]int32, json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return trinity.Message{Role: "assistant", Content: "{"}, nil, errors.New("half a call")
}

// toolbox is an environment with a tool.
type toolbox struct{ act }

func (b *toolbox) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &toolbox{act{stage: &stage{Turns: 1}}}, nil
}

func (b *toolbox) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	o, err := b.act.Reset(ctx, seed)
	o.Tools = json.RawMessage(`[{}]`)
	return o, err
}

func TestUnreadableCallsGoBackToThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := defaultPlay()
		p.Environment, p.MaxTurns, p.opener = "toolbox", 2, &toolbox{}
		m := model(&parrot{says: "ok"})
		m.Renderer = garbled{}
		exps, err := (&inEnvironment{p}).Run(t.Context(), rollout(task(), m, nil))
		if err != nil {
			t.Fatal(err)
		}
		if text := (plain{}).Decode(exps[0].Tokens); !strings.Contains(text, "tool: The call cannot be read: half a call") {
			t.Errorf("the policy read %q", text)
		}
		if m := exps[0].Metrics; m["tool_call_malformed_rate"] != 1 || m["tool_error_rate"] != 1 || exps[0].Truncated != trinity.TurnsTruncated {
			t.Errorf("%v, %s", m, exps[0].Truncated)
		}
	})
}

func TestWorkflowsRefuseEnvironmentsThatCannotBe(t *testing.T) {
	for want, args := range map[string]map[string]any{
		"environment: name one":        {},
		`unknown environment "stge"`:   {"environment": "stge"},
		"environment stage: turn: unk": {"environment": "stage", "environment_args": map[string]any{"turn": 1}},
		"max_turns":                    {"environment": "stage", "max_turns": 0},
		"max_concurrent":               {"environment": "stage", "max_concurrent": -1},
		"step_timeout: must be":        {"environment": "stage", "step_timeout": 0},
	} {
		if _, err := registry.Workflows.Build("environment_workflow", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	for want, args := range map[string]map[string]any{"reward_propagation": {"reward_propagation": "first"}, "gamma": {"gamma": 2}} {
		args["environment"] = "stage"
		if _, err := registry.Workflows.Build("step_wise_workflow", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
