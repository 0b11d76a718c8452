package workflow

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// The rewards of the stage are 1, 2 and 3.
func TestTextGames(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   map[string]any
		reward float64
		steps  string // rewards of the steps, if each reply is an experience
		done   float64
	}{
		{"alfworld_workflow", nil, 3, "", 1},
		{"alfworld_workflow", map[string]any{"max_env_steps": 2}, -0.1, "", 0},
		{"alfworld_workflow", map[string]any{"environment_args": map[string]any{"cut": true}}, -0.1, "", 0},
		{"alfworld_workflow", map[string]any{"max_env_steps": 2, "unfinished_reward": -1}, -1, "", 0},
		{"step_wise_alfworld_workflow", nil, 3, "0 0 3", 1},
		{"step_wise_alfworld_workflow", map[string]any{"max_env_steps": 2}, -0.1, "0 -0.1", 0},
		{"sciworld_workflow", nil, 0.06, "", 1},
		{"sciworld_workflow", map[string]any{"max_turns": 2}, 0.03, "", 0},
		{"alfworld_workflow", map[string]any{"max_env_steps": 40, "environment_args": map[string]any{"turns": 35}}, 35, "", 1},
		{"webshop_workflow", nil, 3, "", 1},
		{"webshop_workflow", map[string]any{"max_env_steps": 1}, -0.1, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			args := map[string]any{"environment": "stage"}
			maps.Copy(args, c.args)
			r := rollout(task(), model(&parrot{says: "Hm.<action> go on </action>"}), nil)
			exps, err := build(t, c.name, args).Run(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			for _, e := range exps {
				if !e.Reward.Valid || fmt.Sprintf("%.9g", e.Reward.Value) != fmt.Sprintf("%.9g", c.reward) {
					t.Errorf("%s %v: reward %+v, want %g", c.name, c.args, e.Reward, c.reward)
				}
				if own, ok := e.Info["step_reward"]; ok {
					steps = append(steps, fmt.Sprint(own))
				}
			}
			if got := strings.Join(steps, " "); got != c.steps {
				t.Errorf("%s %v: the steps have the rewards %s, want %s", c.name, c.args, got, c.steps)
			}
			m := exps[0].Metrics
			if m["env_done"] != c.done || m["env_rounds"] != m["turns"]-1 || m["acts"] != m["turns"] {
				t.Errorf("%s %v: %v", c.name, c.args, m)
			}
			if text := (plain{}).Decode(exps[len(exps)-1].Tokens); m["turns"] > 1 && !strings.Contains(text, "user: heard go on\n") {
				t.Errorf("%s: the environment heard something else: %q", c.name, text)
			}
		})
	}
}

// A state follows from the words where the environment gives none.
func TestAStateOfWords(t *testing.T) {
	say := func(words ...string) string {
		o := trinity.Observation{}
		for _, w := range words {
			o.Messages = append(o.Messages, trinity.Message{Role: "user", Content: w})
		}
		return withState(o).State
	}
	again, known := say("a"), withState(trinity.Observation{State: "x"}).State
	if say("a") != again || say("a") == say("b") || say("a", "b") == say("ab") || known != "x" {
		t.Error("states are mixed up")
	}
}

// A file of Trinity-RFT names no environment. It is read, and its first row says what is missing.
func TestATextGameNeedsAnEnvironment(t *testing.T) {
	for _, name := range []string{"alfworld_workflow", "step_wise_alfworld_workflow", "sciworld_workflow", "webshop_workflow"} {
		w := build(t, name, map[string]any{"max_env_steps": 30})
		checked := trinity.RequirementsOf(w).CheckTask(task())
		_, played := w.Run(t.Context(), rollout(task(), model(&parrot{says: "ok"}), nil))
		for _, err := range []error{checked, played} {
			want := "environment: name what plays the game of " + name
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := registry.Workflows.Build(name, map[string]any{"environment": "stage", "max_env_steps": 0}); err == nil {
			t.Errorf("%s plays no step", name)
		}
	}
}
