package operator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/registry"
)

// scriptOf returns a script whose process function has these lines as its body.
func scriptOf(lines ...string) string {
	return "def process(group):\n  " + strings.Join(lines, "\n  ") + "\n"
}

// captureStderr returns the text that during writes to standard error.
func captureStderr(t *testing.T, during func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	os.Stderr = file
	during()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestScriptPrintsInOrder(t *testing.T) {
	for _, end := range []string{"return group", "fail('over')"} {
		op := build(t, "starlark", args{"script": scriptOf("print('a', 1)", "print()", "print('é\\n')", end)})
		got := captureStderr(t, func() { _, _, _ = op.Process(t.Context(), groups{group(1), group(0)[:0]}) })
		if got != "a 1\n\né\n\n" {
			t.Errorf("%s: printed %q", end, got)
		}
	}
}

func TestScriptErrorsAreOneLineWithTheirPlace(t *testing.T) {
	for script, want := range map[string]string{
		scriptOf("fail('x\\ny' * (1 << 20))"):         "script:2: fail: x yx y",
		"seen = []\n" + scriptOf("seen.append(1)"):    "script:3: append: cannot append to frozen list",
		scriptOf("return group[3]"):                   "group of task taskset/0: script:2: list index 3 out of range",
		scriptOf("x = 'a' * (1 << 33)"):               "script:2: repeat count 8589934592 too large",
		scriptOf("n = 1", "x = sorted(range(n<<61))"): "script: a list is longer than any memory",
	} {
		_, _, err := build(t, "starlark", args{"script": script}).Process(t.Context(), groups{group(1)})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 3000 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: got %v, want %q in one line", script, err, want)
		}
	}
}

func TestScriptNamesTheGroupThatFails(t *testing.T) {
	first, second := group(1), group(1)
	second[0].ID.Task = "taskset/1"
	path := filepath.Join(t.TempDir(), "fails.star")
	if err := os.WriteFile(path, []byte(scriptOf("if group[0]['task'] == 'taskset/0':", "  return group", "fail('no')")), 0o666); err != nil {
		t.Fatal(err)
	}
	_, _, err := build(t, "starlark", args{"path": path}).Process(t.Context(), groups{first, second})
	if want := "group of task taskset/1: " + path + ":4: fail: no"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Few steps can take any amount of memory and time. The script's process ends, the run goes on to
// report it.
func TestScriptsOfFewStepsAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is bounded on Linux")
	}
	for script, want := range map[string]string{
		scriptOf("n = 1 << 500", "for i in range(64):", "  n *= n", "return group"):                             "timeout = 0.5 s",
		scriptOf("x = []", "for i in range(900000):", "  x = [x]", "group[0]['info']['x'] = x", "return group"): "timeout = 0.5 s",
		scriptOf("x = [0] * (1 << 29)", "return group"):                                                         "more memory than the 4 GiB",
	} {
		a := args{"script": script, "timeout": 60}
		if strings.HasPrefix(want, "timeout") {
			a["timeout"] = 0.5
		}
		_, _, err := build(t, "starlark", a).Process(t.Context(), groups{group(1)})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.80s: got %v, want %q", script, err, want)
		}
	}
}

func TestScriptStopsAtItsTimeout(t *testing.T) {
	op := build(t, "starlark", args{"script": scriptOf("for i in range(1 << 62):", "  pass"), "max_steps": 1 << 62, "timeout": 0.05})
	_, _, err := op.Process(t.Context(), groups{group(1)})
	if want := "group of task taskset/0: script: took more than timeout = 0.05 s for one group"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestScriptStopsWithTheRun(t *testing.T) {
	op := build(t, "starlark", args{"script": scriptOf("for i in range(1 << 62):", "  pass"), "max_steps": 1 << 62})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, _, err := op.Process(ctx, groups{group(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The limit of memory is fixed, so the key is an error and not ignored.
func TestScriptRefusesAMemoryLimit(t *testing.T) {
	errs := registry.Operators.Check("starlark", args{"script": scriptOf("return group"), "max_memory_mb": 64})
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "max_memory_mb") {
		t.Errorf("got %v", errs)
	}
}
