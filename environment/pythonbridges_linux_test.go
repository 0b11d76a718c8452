package environment

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// withModules lets Python processes import modules that tests write.
func withModules(t *testing.T, modules map[string]string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	folder := t.TempDir()
	for name, code := range modules {
		if err := os.WriteFile(filepath.Join(folder, name+".py"), []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PYTHONPATH", folder)
}

// fakeTextworld has the part of TextWorld that the bridge uses. What the states say was recorded from
// TextWorld 1.7.0 with nb_rooms 3, nb_objects 4, quest_length 3 and seed 5.
const fakeTextworld = `
import os

__version__ = "fake"
class EnvInfos:
    def __init__(self, **wanted): pass
class GameOptions:
    def __init__(self): self.nb_rooms, self.seeds, self.path = 1, None, ""
    @property
    def quest_length(self): return 1
    @quest_length.setter
    def quest_length(self, n): pass
def make(o):
    print("compiling")
    open(o.path, "w").write(f"{o.nb_rooms} {o.seeds}")
class State:
    def __init__(self, feedback, commands, objective="", won=False):
        self.feedback, self.admissible_commands, self.objective, self.won, self.lost = feedback, commands, objective, won, False
        self.description = "-= Cookhouse =-\nYou've just walked into a cookhouse.\n"
class Env:
    def __init__(self, path): self.game = open(path).read()
    def reset(self):
        self.at = 0
        return State("banner", ["look", "go south"], "Go south in game " + self.game if self.game[0].isdigit() else "")
    def step(self, command):
        if command == "break": raise RuntimeError("the game is broken")
        if command != "go south": return State("\nYou look.\n\n\n\n>      -= Cookhouse =-0/1", ["go south", "look"]), 0, False
        return State("\nYou win.\n\n> -= Study =-1/1", [], won=True), 1, True
    def close(self): pass
def start(path, infos): return Env(path)
`

func TestTextWorldConforms(t *testing.T) {
	withModules(t, map[string]string{"textworld": fakeTextworld})
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{},
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return trinity.Action{Text: []string{"look", "```\n```", "I go.\n```go  south\n```"}[i]}
		},
	}, open(t, "textworld", map[string]any{"make": map[string]any{"nb_rooms": 3, "quest_length": 2}}))
}

func TestTextWorldSpeaks(t *testing.T) {
	withModules(t, map[string]string{"textworld": fakeTextworld})
	folder := t.TempDir()
	args := map[string]any{"folder": folder, "unread_reward": -1, "max_steps": 3}
	env, first := begin(t, "textworld", args, nil)
	const room = "-= Cookhouse =-\nYou've just walked into a cookhouse."
	if got := first.Messages[0].Content; !strings.Contains(got, "Go south in game 1 1\n\n"+room+"\n\nPossible commands: go south, look") {
		t.Errorf("asks %q", got)
	}
	if out := step(t, env, "``` ```"); *out.Reward != -1 || out.State != first.State || out.Metrics["valid"] != 0 {
		t.Errorf("no command: %+v", out)
	}
	if out := step(t, env, "look"); *out.Reward != 0 || out.Messages[0].Content != "You look.\n\nPossible commands: go south, look" {
		t.Errorf("after a command: %+v", out)
	}
	if out := step(t, env, "```go south```"); !out.Done || out.Truncated || *out.Reward != 1 || out.Metrics["success"] != 1 {
		t.Errorf("at the end: %+v", out)
	}
	made, err := filepath.Glob(filepath.Join(folder, "*", "game.z8"))
	if err != nil || len(made) != 1 {
		t.Errorf("kept %q, %v", made, err)
	}
	task := &trinity.Task{Row: map[string]any{"game": filepath.Join(t.TempDir(), "own.z8")}}
	again := env.(trinity.Reusable)
	if err := again.Reuse(t.Context(), task); err == nil {
		t.Error("a game that is not there is accepted")
	}
	if err := os.WriteFile(task.Row["game"].(string), []byte("own"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := again.Reuse(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if first, err := again.Reset(t.Context(), 1); err != nil || !strings.Contains(first.Messages[0].Content, "\n\nbanner\n\n") {
		t.Errorf("a game of the row: %v, %+v", err, first)
	}
	if _, err := env.Step(t.Context(), trinity.Action{Text: "break"}); err == nil || !strings.Contains(err.Error(), "the game is broken") {
		t.Errorf("a game that raises: %v", err)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	wrong, err := open(t, "textworld", map[string]any{"make": map[string]any{"rooms": 3}}).OpenEnvironment(t.Context(), &trinity.Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if _, err := wrong.Reset(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "GameOptions has no rooms") {
		t.Errorf("an unknown option: %v", err)
	}
}

// fakeReasoningGym has the part of reasoning-gym that the bridge uses, with a generator of sums.
const fakeReasoningGym = `
class Sums:
    def __init__(self, seed=None, size=3): self.seed, self.size = seed, size
    def __len__(self): return self.size
    def __getitem__(self, i): return {"question": f"{self.seed} + {i}?", "answer": str(self.seed + i), "metadata": {"cells": (i,)}}
    def score_answer(self, answer, entry):
        assert isinstance(entry["metadata"]["cells"], tuple)
        return 1.0 if answer == entry["answer"] else 0.05
class factory: DATASETS = {"sums": 0}
def create_dataset(name, **config): return Sums(**config)
`

func TestReasoningGymConforms(t *testing.T) {
	withModules(t, map[string]string{"reasoning_gym": fakeReasoningGym})
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{Index: 2},
		Act:  func(int, trinity.Observation) trinity.Action { return trinity.Action{Text: "2"} },
	}, open(t, "reasoning_gym", map[string]any{"dataset": "sums"}))
}

func TestReasoningGymScores(t *testing.T) {
	withModules(t, map[string]string{"reasoning_gym": fakeReasoningGym})
	row := map[string]any{"dataset": "sums", "config": map[string]any{"seed": 40}, "index": 2.0}
	for reply, want := range map[string]float64{
		"42": 1, "41": 0.05, "It is <answer>1</answer>, no, <answer> 42\n</answer>.": 1, "It is 42": 0.05,
	} {
		env, first := begin(t, "reasoning_gym", map[string]any{"ask": "Q: {question}"}, row)
		if got := first.Messages[0].Content; got != "Q: 40 + 2?" {
			t.Errorf("asks %q", got)
		}
		if out := step(t, env, reply); !out.Done || *out.Reward != want || (out.Metrics["success"] == 1) != (want == 1) {
			t.Errorf("%q: %+v, want %g", reply, out, want)
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
	for want, row := range map[string]map[string]any{
		"has no dataset none": {"dataset": "none"}, "raise config.size": {"dataset": "sums", "index": 3},
	} {
		env, err := open(t, "reasoning_gym", nil).OpenEnvironment(t.Context(), &trinity.Task{Row: row})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.Reset(t.Context(), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", row, err, want)
		}
		env.Close()
	}
	check := trinity.RequirementsOf(open(t, "reasoning_gym", nil)).CheckTask
	for _, row := range []map[string]any{nil, {"dataset": 3}, {"dataset": "sums", "index": -1}} {
		if err := check(&trinity.Task{Row: row}); err == nil {
			t.Errorf("%v is accepted", row)
		}
	}
}

// pythonBridges are the bridges to Python: a module that they need, and answers of the other side to
// the calls of an episode.
var pythonBridges = map[string]struct {
	module  string
	args    map[string]any
	answers []string
}{
	"gymnasium": {"gymnasium", map[string]any{"id": "Walk-v0"}, []string{
		`{"space": "Discrete(2)", "example": 0, "first": 0, "count": 2}`, `{"observation": 0}`}},
	"textworld":     {"textworld", nil, []string{`{"text": "A room.", "commands": ["look"]}`}},
	"reasoning_gym": {"reasoning_gym", map[string]any{"dataset": "sums"}, []string{`{"question": "1 + 1?"}`}},
}

// A module that is missing is one line before a run.
func TestPythonBridgesNeedTheirModule(t *testing.T) {
	for name, b := range pythonBridges {
		withModules(t, nil)
		args := map[string]any{"env": map[string]string{"PYTHONPATH": ""}}
		for key, value := range b.args {
			args[key] = value
		}
		want := "python3 has no module " + b.module + ": install it there"
		if _, err := registry.Environments.Build(name, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		args["python"] = "no-such-python"
		if _, err := registry.Environments.Build(name, args); err == nil {
			t.Errorf("%s: an interpreter that is not there is accepted", name)
		}
	}
}

// Whatever the other side does at whichever call, the call is an error, and nothing is left running.
func TestPythonBridgesBearFaults(t *testing.T) {
	trinitytest.Long(t, "starts a program for each fault", "environment", "internal/bridge")
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	for name, b := range pythonBridges {
		for fault, does := range map[string]string{
			"killed": "kill -9 $$", "hung": "sleep 1000", "garbage": "echo '<html>'", "half a line": `printf '{"text": "ha'; exit 0`,
			"no object": "echo 3", "an error": `echo '{"error": "told so"}'`,
			"another type": `echo '{"text": 1, "question": 1, "score": "x", "space": 1}'`,
		} {
			for call := range len(b.answers) + 1 {
				t.Run(fmt.Sprint(name, " ", fault, " at call ", call), func(t *testing.T) {
					if fault == "another type" && name == "gymnasium" && call > 0 {
						t.Skip("an observation may have any type")
					}
					breaks(t, name, b.args, b.answers[:call], does, fault == "hung")
				})
			}
		}
	}
}

// A generator that gives no score is an error, and not the score 0.
func TestReasoningGymNeedsAScore(t *testing.T) {
	b := pythonBridges["reasoning_gym"]
	breaks(t, "reasoning_gym", b.args, b.answers, `echo '{"score": null}'`, false)
}

// breaks plays an episode with another side that does something bad after its answers.
func breaks(t *testing.T, name string, args map[string]any, answers []string, does string, hangs bool) {
	t.Helper()
	folder := t.TempDir()
	script := "#!/usr/bin/env bash\n[[ $2 == *find_spec* ]] && exit 0\n"
	for _, answer := range answers {
		script += "read -r line; echo '" + answer + "'\n"
	}
	script += "read -r line; " + does + "\nread -r line\n"
	python := filepath.Join(folder, "python")
	if err := os.WriteFile(python, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"python": python}
	for key, value := range args {
		all[key] = value
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if hangs {
		time.AfterFunc(300*time.Millisecond, cancel)
	}
	env, err := open(t, name, all).OpenEnvironment(ctx, &trinity.Task{})
	if err == nil {
		if _, err = env.Reset(ctx, 1); err == nil {
			_, err = env.Step(ctx, trinity.Action{Text: "1"})
		}
		if closed := env.Close(); closed != nil {
			t.Error(closed)
		}
	}
	if err == nil {
		t.Error("the episode goes on")
	}
	if !soon(func() bool { return len(marked(t, python)) == 0 }) {
		t.Errorf("still running: %q", marked(t, python))
	}
}

// The real components.
func TestTextWorldWithItsModule(t *testing.T) {
	args := map[string]any{"python": agentsPython(t), "make": map[string]any{"nb_rooms": 3, "nb_objects": 4, "quest_length": 3}}
	env, err := open(t, "textworld", args).OpenEnvironment(t.Context(), &trinity.Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	first, err := env.Reset(t.Context(), 5)
	if err != nil || !strings.Contains(first.Messages[0].Content, "recover the nest of caterpillars from the mantelpiece") {
		t.Fatalf("%v, %+v", err, first)
	}
	step(t, env, "go south")
	step(t, env, "take nest of caterpillars from mantelpiece")
	out := step(t, env, "```\ndrop nest of caterpillars\n```")
	if !out.Done || *out.Reward != 1 || out.Metrics["success"] != 1 || strings.Contains(out.Messages[0].Content, "0/3") {
		t.Errorf("at the end: %+v", out)
	}
}

func TestReasoningGymWithItsModule(t *testing.T) {
	python := agentsPython(t)
	row := map[string]any{"dataset": "countdown", "config": map[string]any{"seed": 7}, "index": 0}
	for reply, want := range map[string]float64{"<answer>40*(94 - 90) + 83 - 74</answer>": 1, "40": 0.05, "nothing": 0.01} {
		env, first := begin(t, "reasoning_gym", map[string]any{"python": python}, row)
		if !strings.Contains(first.Messages[0].Content, "83, 94, 74, 90, 40") {
			t.Errorf("asks %q", first.Messages[0].Content)
		}
		if out := step(t, env, reply); *out.Reward != want {
			t.Errorf("%q: %g, want %g", reply, *out.Reward, want)
		}
		env.Close()
	}
}

// Whatever TextWorld's side answers, the policy reads a message, or there is an error.
func FuzzTextWorldAnswers(f *testing.F) {
	f.Add(`{"text": "x", "commands": null, "reward": 1e999}`)
	f.Add(`{"text": "You win.", "commands": ["look"], "won": true, "done": true, "reward": 1}`)
	f.Add(`{"error": "no such game"}`)
	f.Fuzz(func(t *testing.T, answer string) {
		e := &adventure{args: &textWorld{tabular: tabular{Ask: "{observation}{commands}", MaxSteps: 3}}}
		if bridge.Decode([]byte(answer), &e.now) != nil {
			return
		}
		o := e.says(e.args.Ask)
		if len(o.Messages) != 1 || o.Messages[0].Content != e.now.Text+strings.Join(e.now.Commands, ", ") {
			t.Errorf("%+v", o)
		}
	})
}
