package environment

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// programArgs returns arguments with the best isolation that this machine has. It skips the test if
// the sandbox lacks the interpreter.
func programArgs(t *testing.T, interpreter string) map[string]any {
	t.Helper()
	isolation := "none"
	if _, err := sandbox.New(sandbox.Best); err == nil {
		isolation = "best"
	}
	if !slices.ContainsFunc(filepath.SplitList(sandbox.Path), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, interpreter))
		return err == nil
	}) {
		t.Skip("no " + interpreter + " in " + sandbox.Path)
	}
	return map[string]any{"isolation": isolation, "timeout": 2, "tell": "{output}", "ask": "{question}"}
}

func programTask(files map[string]any) *trinity.Task {
	return &trinity.Task{
		Row:    map[string]any{"prompt": "How many?", "response": "42", "files": files},
		Format: trinity.TaskFormat{PromptKey: "prompt", ResponseKey: "response"},
	}
}

func TestProgramsConform(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: programTask(nil),
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return trinity.Action{Text: []string{"```bash\nx=41\n```", "```\necho $((x + 1))\n```", "42"}[i]}
		},
	}, open(t, "bash", programArgs(t, "bash")))
}

func TestProgramsRun(t *testing.T) {
	for _, c := range []struct {
		language, interpreter string
		args                  map[string]any
		replies, hears        []string
	}{
		{"bash", "bash", nil,
			[]string{
				"```bash\necho one; x=5; f() { echo $((x * 2)); }\n```", "```\nf; cat data/a.txt\n```",
				"```\necho new > data/a.txt; false\n```", "```\ncat data/a.txt; echo oops >&2\n```", "```\nprintf '%0120d' 7\n```", "```\ntrue\n```",
			},
			[]string{
				"one", "10\nold", "(exit status 1)", "oldoops",
				strings.Repeat("0", 50) + "\n… 20 bytes left out …\n" + strings.Repeat("0", 49) + "7", "(no output)",
			}},
		{"bash", "bash", map[string]any{"keep": false}, []string{"```\nx=5\n```", "```\necho \"x$x\"\n```"}, []string{"(no output)", "x"}},
		{"python", "python3", nil,
			[]string{"```python\nprint('loud')\ndef f(n): return n * 2\n```", "Let me see.\n```py\nprint(f(21))\n```", "```\n1/0\n```"},
			[]string{"loud", "42", "ZeroDivisionError: division by zero\n(exit status 1)"}},
	} {
		t.Run(c.language, func(t *testing.T) {
			args := programArgs(t, c.interpreter)
			args["max_output"] = 100
			for name, v := range c.args {
				args[name] = v
			}
			env, err := open(t, c.language, args).OpenEnvironment(t.Context(), programTask(map[string]any{"data/a.txt": "old"}))
			if err != nil {
				t.Fatal(err)
			}
			first, err := env.Reset(t.Context(), 1)
			if err != nil || first.Messages[0].Content != "How many?" {
				t.Fatal(err, first)
			}
			for i, reply := range c.replies {
				out := step(t, env, reply)
				got := out.Messages[0].Content
				if got != c.hears[i] && !(strings.HasPrefix(got, "Traceback") && strings.HasSuffix(got, c.hears[i])) {
					t.Errorf("%q: hears %q, want %q", reply, got, c.hears[i])
				}
			}
		})
	}
}

func TestProgramsScoreAnswers(t *testing.T) {
	args := programArgs(t, "bash")
	args["max_steps"] = 1
	for reply, want := range map[string]float64{"It is\n 42 ": 1, "42 or so": 0, "": 0} {
		env, err := open(t, "bash", args).OpenEnvironment(t.Context(), programTask(nil))
		if err != nil {
			t.Fatal(err)
		}
		if out := step(t, env, reply); !out.Done || *out.Reward != want {
			t.Errorf("%q: %+v, want %g", reply, out, want)
		}
		if _, err := env.Reset(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if out := step(t, env, "```\nexit 3\n```"); out.Done || !out.Truncated || out.Reward != nil || out.Metrics["valid"] != 0 {
			t.Errorf("after the last step: %+v", out)
		}
	}
	without := programTask(nil)
	delete(without.Row, "response")
	env, err := open(t, "bash", args).OpenEnvironment(t.Context(), without)
	if err != nil {
		t.Fatal(err)
	}
	if out := step(t, env, "42"); !out.Done || out.Reward != nil {
		t.Errorf("without a reference answer: %+v", out)
	}
}

func TestProgramsRefuseWhatTheyCannotRun(t *testing.T) {
	args := programArgs(t, "bash")
	check := trinity.RequirementsOf(open(t, "bash", args)).CheckTask
	for _, files := range []map[string]any{{"../a": "x"}, {"/etc/a": "x"}, {"0_step.sh": "x"}, {"a": 1}} {
		if err := check(programTask(files)); err == nil {
			t.Errorf("files %v are accepted", files)
		}
	}
	for _, c := range []map[string]any{{"max_steps": 0}, {"timeout": 0}, {"max_memory_mb": 1}, {"max_output": 1}, {"isolation": "x"},
		{"read": []any{"relative"}}} {
		if _, err := registry.Environments.Build("bash", c); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
}
