package environment

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// fakeGymnasium is a module with the part of Gymnasium that the bridge uses: a walk over n cells.
const fakeGymnasium = `
import os, random, sys

class Discrete:
    shape = ()
    def __init__(self, n, start=0): self.n, self.start = n, start
    def seed(self, seed): pass
    def sample(self): return self.start
    def contains(self, x): return isinstance(x, int) and self.start <= x < self.start + self.n
    def __str__(self): return f"Discrete({self.n})"

class Text(Discrete):
    def __init__(self): pass
    def sample(self): return "go"
    def contains(self, x): return isinstance(x, str)
    def __str__(self): return "Text()"

Text.__name__ = "Text"

class Walk:
    def __init__(self, id, cells=4, render_mode=None, start=0):
        self.cells = cells
        self.action_space = Text() if id == "Words-v0" else Discrete(2, start)
    def reset(self, seed):
        print("libraries print")
        self.at = random.Random(seed).randrange(2)
        return self.at, {}
    def step(self, action):
        if self.at == 99: raise RuntimeError("the walk is broken")
        if action == "die": os._exit(3)
        if action == "break": self.at = 99; return self.at, 0, False, False, {}
        self.at += 1 if action in (self.action_space.__dict__.get("start", 0) + 1, "right") else -1
        return {"at": self.at, "half": 1 / 3}, -0.5, self.at == self.cells, self.at < -3, {"is_success": self.at == self.cells}
    def render(self): return "." * max(0, self.at) + "P"
    def close(self): pass

def make(id, **kwargs):
    if id not in ("Walk-v0", "Words-v0"): raise KeyError(f"no environment {id}")
    return Walk(id, **kwargs)
`

// withFakeGymnasium lets Python processes import the fake.
func withFakeGymnasium(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "gymnasium.py"), []byte(fakeGymnasium), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", folder)
}

func TestGymnasiumBridgeConforms(t *testing.T) {
	withFakeGymnasium(t)
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{},
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return trinity.Action{Text: []string{"1", "0", "1", "?"}[i%4]}
		},
	}, open(t, "gymnasium", map[string]any{"id": "Walk-v0", "max_steps": 9}))
}

func TestGymnasiumBridgeSpeaks(t *testing.T) {
	withFakeGymnasium(t)
	args := map[string]any{"id": "Walk-v0", "kwargs": map[string]any{"start": 5, "cells": 3}, "unread_reward": -1}
	env, first := begin(t, "gymnasium", args, nil)
	defer env.Close()
	if got := first.Messages[0].Content; !strings.Contains(got, "a number from 5 to 6") || !strings.Contains(got, "```5```") {
		t.Errorf("asks %q", got)
	}
	for _, reply := range []string{"7", "right"} {
		if out := step(t, env, reply); *out.Reward != -1 || out.State != first.State || out.Metrics["valid"] != 0 {
			t.Errorf("%q, which is no action: %+v", reply, out)
		}
	}
	if out := step(t, env, "```5```"); *out.Reward != -0.5 || !strings.Contains(out.Messages[0].Content, `"half": 0.33333`) {
		t.Errorf("after a step: %+v", out)
	}
	for out := step(t, env, "6"); ; out = step(t, env, "6") {
		if out.Done {
			if out.Metrics["success"] != 1 || math.Abs(out.Metrics["valid"]-1) < 0.1 {
				t.Errorf("at the end: %v", out.Metrics)
			}
			break
		}
	}

	task := &trinity.Task{Row: map[string]any{"env_kwargs": map[string]any{"render_mode": "ansi", "cells": 2}}}
	again := env.(trinity.Reusable) // the process goes on with another environment
	if err := again.Reuse(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if first, err := again.Reset(t.Context(), 2); err != nil || !strings.HasSuffix(first.Messages[0].Content, "P") {
		t.Errorf("drawn: %v, %q", err, first.Messages)
	}
	task.Row["env_id"] = "None-v0"
	if err := again.Reuse(t.Context(), task); err == nil || !strings.Contains(err.Error(), "no environment None-v0") {
		t.Errorf("an unknown id: %v", err)
	}
}

func TestGymnasiumBridgeNamesActions(t *testing.T) {
	withFakeGymnasium(t)
	env, first := begin(t, "gymnasium", map[string]any{"actions": []string{"Back", "Forth"}}, map[string]any{"env_id": "Walk-v0"})
	defer env.Close()
	if got := first.Messages[0].Content; !strings.Contains(got, "one of Back, Forth") || !strings.Contains(got, "```Back```") {
		t.Errorf("asks %q", got)
	}
	if out := step(t, env, "```forth```"); *out.Reward != -0.5 || out.State == first.State {
		t.Errorf("after a step: %+v", out)
	}
	three := open(t, "gymnasium", map[string]any{"id": "Walk-v0", "actions": []string{"a", "b", "c"}})
	if _, err := three.OpenEnvironment(t.Context(), &trinity.Task{}); err == nil || !strings.Contains(err.Error(), "3 names for 2") {
		t.Errorf("three names for two actions: %v", err)
	}
}

// An environment that raises or ends is an error, and says why.
func TestGymnasiumBridgeFails(t *testing.T) {
	withFakeGymnasium(t)
	for reply, want := range map[string]string{"break": "RuntimeError: the walk is broken", "die": "exit status 3"} {
		env, _ := begin(t, "gymnasium", map[string]any{"id": "Words-v0"}, nil)
		_, err := env.Step(t.Context(), trinity.Action{Text: reply})
		if reply == "break" && err == nil {
			_, err = env.Step(t.Context(), trinity.Action{Text: "right"})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", reply, err, want)
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, args := range []map[string]any{{"python": "no-such-python"}, {"max_steps": 0}} {
		if _, err := registry.Environments.Build("gymnasium", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	if err := trinity.RequirementsOf(open(t, "gymnasium", nil)).CheckTask(&trinity.Task{}); err == nil {
		t.Error("no id is accepted")
	}
}

// agentsPython returns the interpreter that has the packages of bench/peers/requirements-agents.txt.
func agentsPython(t *testing.T) string {
	t.Helper()
	if os.Getenv("TRINITY_AGENTS") != "1" {
		t.Skip("TRINITY_AGENTS=1 needs the packages of bench/peers/requirements-agents.txt")
	}
	if python := os.Getenv("TRINITY_AGENTS_PYTHON"); python != "" {
		return python
	}
	return "python3"
}

// Gymnasium's own frozen lake and the one in Go give the same episodes.
func TestGymnasiumBridgeWithGymnasium(t *testing.T) {
	python := agentsPython(t)
	args := map[string]any{"python": python, "id": "FrozenLake-v1", "actions": []string{"Left", "Down", "Right", "Up"}}
	theirs, _ := begin(t, "gymnasium", args, nil)
	defer theirs.Close()
	ours, _ := begin(t, "frozen_lake", map[string]any{"is_slippery": true}, nil)
	for seed := range uint64(20) {
		seed += math.MaxUint64 - 100
		for _, env := range []trinity.Environment{theirs, ours} {
			if _, err := env.Reset(t.Context(), seed); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; ; i++ {
			action := []string{"Right", "Down", "Left", "Down"}[i%4]
			got, want := step(t, theirs, action), step(t, ours, action)
			if *got.Reward != *want.Reward || got.Done != want.Done || !strings.HasSuffix(want.State, " "+got.State) {
				t.Fatalf("seed %d, step %d: %+v, want %+v", seed, i, got, want)
			}
			if got.Done || want.Truncated {
				break
			}
		}
	}
	for _, id := range []string{"CartPole-v1", "Blackjack-v1", "Taxi-v4"} {
		env, _ := begin(t, "gymnasium", map[string]any{"python": python, "id": id, "max_steps": 5}, nil)
		for out := step(t, env, "1"); !out.Done && !out.Truncated; out = step(t, env, "1") {
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
}
