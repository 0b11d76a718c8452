package reward

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

// fakePython is an interpreter that finds every module and answers each question with a command of
// bash.
func fakePython(t *testing.T, does string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	script := "#!/usr/bin/env bash\n[[ $2 == *find_spec* ]] && exit 0\nwhile read -r line; do " + does + "; done\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// gymRow and sumRow are rows that `trinity tasks` writes.
var (
	gymRow = map[string]any{"dataset": "countdown", "config": map[string]any{"seed": 7, "size": 120}, "index": 0}
	sumRow = map[string]any{"taskset": "trinity-sums", "config": map[string]any{"first": 7}, "data": map[string]any{"answer": "8"}}
)

func TestRewardsOfPythonLibraries(t *testing.T) {
	for _, c := range []struct{ reward, does, want string }{
		{"reasoning_gym_reward", `echo '{"score": 0.5}'`, "0.5 map[score:0.5]"},
		{"reasoning_gym_reward", `[[ $line == *'"answer":"4 2"'*'"index":0'* ]] && echo '{"score": 1}'`, "1 map[score:1]"},
		{"reasoning_gym_reward", `echo '{"score": null}'`, "error: reasoning_gym: the generator gives no score"},
		{"reasoning_gym_reward", `echo '{"error": "ValueError: no dataset"}'`, "error: reasoning_gym: ValueError: no dataset"},
		{"reasoning_gym_reward", `echo '{"sco`, "error: reasoning_gym: "},
		{"verifiers_reward", `echo '{"parts": {"right": 1, "short": 0.5}}'`, "1.5 map[right:1 short:0.5]"},
		{"verifiers_reward", `[[ $line == *'"reasoning":"think"'*'"system":"Be brief."'* ]] && echo '{"parts": {"a": 0}}'`, "0 map[a:0]"},
		{"verifiers_reward", `echo '{"parts": {}}'`, "error: verifiers: the task gives no reward"},
		{"verifiers_reward", `echo '{"parts": {"right": 1e999}}'`, "error: verifiers: "},
		{"verifiers_reward", "exit 3", "error: verifiers: the program ended before it answered: exit status 3"},
		{"verifiers_reward", "sleep 100", "error: verifiers: no answer of verifiers within timeout = 500ms"},
	} {
		args := map[string]any{"python": fakePython(t, c.does)}
		if strings.Contains(c.want, "timeout") {
			args["timeout"] = 0.5
		}
		in := asked(newOpener(t), "I think. <answer> 4 2\n</answer>")
		if in.Task.Row = gymRow; c.reward == "verifiers_reward" {
			in.Task.Row = sumRow
		}
		in.Messages = []trinity.Message{
			{Role: "system", Content: "Be brief."}, {Role: "user", Content: "?"}, {Role: "assistant", Content: in.Response, Reasoning: "think"},
		}
		if got := describe(build(t, c.reward, args).Score(t.Context(), in)); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s with %s: %s, want %s", c.reward, c.does, got, c.want)
		}
	}
}

func TestRewardsOfPythonLibrariesRefuse(t *testing.T) {
	python := fakePython(t, "true")
	for _, args := range []map[string]any{{"python": "no-such-python"}, {"python": python, "workers": 0}, {"python": python, "timeout": 0}} {
		for _, name := range []string{"reasoning_gym_reward", "verifiers_reward"} {
			if _, err := registry.Rewards.Build(name, args); err == nil {
				t.Errorf("%s: %v is accepted", name, args)
			}
		}
	}
	for name, c := range map[string]struct {
		row  map[string]any
		want string
	}{
		"reasoning_gym_reward": {map[string]any{"dataset": "x", "config": map[string]any{}, "index": "one"}, `column "index"`},
		"verifiers_reward":     {map[string]any{"taskset": "x"}, "no column \"config\": `trinity tasks`"},
	} {
		err := trinity.RequirementsOf(build(t, name, map[string]any{"python": python})).CheckTask(&trinity.Task{Row: c.row})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The real libraries.
func TestRewardsOfPythonLibrariesWithTheirModules(t *testing.T) {
	if os.Getenv("TRINITY_AGENTS") != "1" {
		t.Skip("TRINITY_AGENTS=1 needs the packages of bench/peers/requirements-agents.txt or requirements-verifiers.txt")
	}
	folder, err := filepath.Abs("testdata/verifiers")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", folder)
	python := bridge.Python{Python: os.Getenv("TRINITY_AGENTS_PYTHON")}
	for _, c := range []struct {
		library      bridge.Library
		name, reward string
		row          int
		config       map[string]any
		question     string
		rewards      map[string]string
	}{
		{bridge.ReasoningGym, "countdown", "reasoning_gym_reward", 0, map[string]any{"seed": 7, "size": 120}, "83, 94, 74, 90, 40",
			map[string]string{"<answer>40*(94 - 90) + 83 - 74</answer>": "1 map[score:1]", "40": "0.05 map[score:0.05]"}},
		{bridge.Verifiers, "trinity-sums", "verifiers_reward", 1, map[string]any{"first": 7}, "7 + 1?", map[string]string{
			"8": "1.5 map[right:1 short:0.5]", "9": "0.5 map[right:0 short:0.5]", strings.Repeat("8", 60): "0 map[right:0 short:0]"}},
	} {
		t.Run(c.library.Module, func(t *testing.T) {
			if err := python.Has(c.library.Module); err != nil {
				t.Skip(err)
			}
			b := python.Open(c.library.Script, 1)
			defer b.Close()
			rows, err := b.Rows(t.Context(), c.name, c.config, c.row, 1)
			if err != nil || len(rows) != 1 || !strings.Contains(string(rows[0]), c.question) {
				t.Fatalf("%v, %s", err, rows)
			}
			host := newOpener(t)
			fn := build(t, c.reward, map[string]any{"python": python.Python})
			for reply, want := range c.rewards {
				in := asked(host, reply)
				in.Task.Row, in.Prompt = decoded(t, rows[0]), c.question
				if got := describe(fn.Score(t.Context(), in)); got != want {
					t.Errorf("%q: %s, want %s", reply, got, want)
				}
			}
			if rows, err := b.Rows(t.Context(), c.name, c.config, 1000, 1); err != nil || len(rows) != 0 {
				t.Errorf("after the last row: %v, %s", err, rows)
			}
			if _, err := b.Rows(t.Context(), "no-such-thing", c.config, 0, 1); err == nil || !strings.Contains(err.Error(), "no-such-thing") {
				t.Errorf("an unknown name: %v", err)
			}
		})
	}
}

func decoded(t *testing.T, text []byte) (row map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &row); err != nil {
		t.Fatal(err)
	}
	return row
}
