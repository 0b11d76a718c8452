package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// asOwner is the variable with the episode that a child process plays until it is killed.
const asOwner = "ENVIRONMENT_TEST_OWNER"

type ownedEpisode struct {
	Name   string
	Args   map[string]any
	Action string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(asOwner); text != "" {
		fmt.Fprintln(os.Stderr, own(text))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// own plays an episode whose step does not return.
func own(text string) error {
	var o ownedEpisode
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	opener, err := registry.Environments.Build(o.Name, o.Args)
	if err != nil {
		return err
	}
	env, err := opener.OpenEnvironment(context.Background(), programTask(nil))
	if err != nil {
		return err
	}
	if _, err := env.Reset(context.Background(), 0); err != nil {
		return err
	}
	out, err := env.Step(context.Background(), trinity.Action{Text: o.Action})
	return fmt.Errorf("the step returned %+v, %w", out, err)
}

// A run that is killed cannot close its environments. Their processes, and what those have started,
// end all the same.
func TestProcessesEndWithAKilledRun(t *testing.T) {
	const module = `
import subprocess
class Discrete: pass
class Env:
    action_space = Discrete()
    action_space.n, action_space.start, action_space.shape = 2, 0, ()
    action_space.seed = lambda seed: None
    action_space.sample = lambda: 0
    action_space.contains = lambda x: True
    def __init__(self, mark): self.mark = mark
    def reset(self, seed): return 0, {}
    def step(self, action): subprocess.run(["sleep", self.mark], start_new_session=True)
def make(id, mark, **kwargs): return Env(mark)
`
	for i, name := range []string{"gymnasium", "python", "bash"} {
		t.Run(name, func(t *testing.T) {
			mark := fmt.Sprintf("9%d%d", os.Getpid(), i) // seconds that no other process sleeps
			o := ownedEpisode{Name: name, Action: "```\nsleep " + mark + "\n```"}
			folder := t.TempDir()
			switch name {
			case "gymnasium":
				if _, err := exec.LookPath("python3"); err != nil {
					t.Skip(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "gymnasium.py"), []byte(module), 0o600); err != nil {
					t.Fatal(err)
				}
				o.Args, o.Action = map[string]any{"id": "Walk-v0", "kwargs": map[string]any{"mark": mark}}, "1"
			case "python":
				o.Args, o.Action = programArgs(t, "python3"), "```\nimport subprocess; subprocess.run(['sleep', '"+mark+"'])\n```"
			default:
				o.Args = programArgs(t, name)
			}
			if o.Args["isolation"] != nil {
				o.Args["timeout"] = 300
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), os.Args[0])
			run.Env = append(os.Environ(), asOwner+"="+string(text), "PYTHONPATH="+folder)
			var said strings.Builder
			run.Stderr = &said
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			if !soon(func() bool { return len(marked(t, "sleep\x00"+mark)) > 0 }) {
				t.Error("the environment starts no process")
			}
			if err := run.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = run.Wait()
			if !soon(func() bool { return len(marked(t, mark)) == 0 }) {
				t.Errorf("still running: %q", marked(t, mark))
			}
			if t.Failed() {
				t.Log(said.String())
			}
		})
	}
}

// soon waits until a condition holds, and reports whether it does within a time that no machine needs.
func soon(holds func() bool) bool {
	for range 1500 {
		if holds() {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// marked returns the command lines of processes that have a text in their command line or environment.
func marked(t *testing.T, mark string) (found []string) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		variables, _ := os.ReadFile(filepath.Join(folder, "environ"))
		if strings.Contains(string(line)+"\x00"+string(variables), mark) {
			found = append(found, string(line))
		}
	}
	return found
}
