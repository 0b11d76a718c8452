package operator

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/registry"
)

// calling is a script whose process has this body.
func calling(lines ...string) string {
	return "def process(group):\n  " + strings.Join(lines, "\n  ") + "\n"
}

// What would take all the memory there is ends with one line, which names that of the script.
func TestScriptsAreBoundInMemory(t *testing.T) {
	const limit = ": the script needs more memory than max_memory_mb = 64 MiB: raise it, or make the script keep less"
	doubled := []string{"x = 'a'", "for i in range(60):", "  x = [x, x]"}
	for _, c := range []struct {
		what   string
		script string
		want   string
	}{
		{"a length that the interpreter refuses", calling("x = 'a' * (1<<33)"), "script:2: repeat count 8589934592 too large"},
		{"another one", calling("x = [0] * (1<<32)"), "script:2: repeat count 4294967296 too large"},
		{"a list at once", calling("n = 1", "x = [0] * (n << 28)", "n = 2"), "script:3" + limit},
		{"a text at once", calling("n = (1 << 30) - 1", "x = 'a' * n", "n = 2"), "script:3" + limit},
		{"a range made a list", calling("n = 1", "x = list(range(n << 40))"), "script:3" + limit},
		{"a range that is longer than memory can be", calling("n = 1", "x = sorted(range(n << 61))"), "script:3" + limit},
		{"a list grown in a loop", calling("x = []", "for i in range(1 << 30):", "  x.append('a' * (1 << 18))"), "script:4" + limit},
		{"a text that doubles", calling("x = 'a'", "for i in range(60):", "  x += x"), "script:4" + limit},
		{"a whole number that doubles its digits", calling("x = 2", "for i in range(60):", "  x = x * x"), "script:4" + limit},
		{"lists of lists as a text", calling(append(doubled, "y = '%s' % x")...), "script:5" + limit},
		{"lists of lists that are returned", calling(append(doubled, "group[0]['info']['x'] = x", "return group")...), "script:6" + limit},
		{"replacement", calling("x = 'a' * (1 << 20)", "y = x.replace('', x)"), "script:3" + limit},
		{"a function that is called", "def grow(x):\n  return x * (1 << 28)\n" + calling("return grow(group)"), "script:2" + limit},
		{"a branch", calling("if not group:", "  return group", "elif group:", "  x = group * (1 << 28)"), "script:5" + limit},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, _, err := build(t, "starlark", args{"script": c.script, "max_memory_mb": 64}).Process(t.Context(), groups{{}, group(1)})
			if want := "group of task taskset/0: " + c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// The group that a script dies of is named, and it is the line of that group; the groups before it count no longer.
func TestScriptDiesOfOneGroup(t *testing.T) {
	small, large := group(1), group(1)
	large[0].ID.Task = "taskset/1"
	path := filepath.Join(t.TempDir(), "eats.star")
	if err := os.WriteFile(path, []byte(calling("if group[0]['task'] == 'taskset/0':", "  return group", "return group * (1 << 28)")), 0o666); err != nil {
		t.Fatal(err)
	}
	_, _, err := build(t, "starlark", args{"path": path, "max_memory_mb": 64}).Process(t.Context(), groups{small, large})
	if want := "group of task taskset/1: " + path + ":4: the script needs more memory"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A higher limit is enough for what a lower one is not. The top level is held to it before the run.
func TestMemoryOfScriptsCanBeRaised(t *testing.T) {
	a := args{"script": "x = ['a' * (1 << 25) for i in range(8)]\ndef process(group): return group", "max_memory_mb": 64}
	if errs := registry.Operators.Check("starlark", a); len(errs) != 1 || !strings.Contains(errs[0].Error(), "script:1: the script needs more memory than max_memory_mb = 64 MiB") {
		t.Errorf("got %v", errs)
	}
	a["max_memory_mb"] = 2048
	if kept, _, err := build(t, "starlark", a).Process(t.Context(), groups{group(1)}); err != nil || len(kept) != 1 {
		t.Errorf("kept %v, %v", kept, err)
	}
}

// The steps of a script are the same when its lines are told: it comes to the place where it died, and not to its last step.
func TestToldLinesAreNoSteps(t *testing.T) {
	script := calling("x = []", "for i in range(1000):", "  x.append('a' * (1 << 22))"+strings.Repeat("; pass", 20))
	_, _, err := build(t, "starlark", args{"script": script, "max_memory_mb": 64, "max_steps": 1000}).Process(t.Context(), groups{group(1)})
	if err == nil || !strings.Contains(err.Error(), "script:4: the script needs more memory") {
		t.Errorf("got %v", err)
	}
}

// printed is what comes on standard error meanwhile.
func printed(t *testing.T, during func()) string {
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

// What is printed is passed on in order, once, also when the script fails or dies after that.
func TestScriptsPrint(t *testing.T) {
	for _, end := range []string{"return group", "fail('over')", "return group * (1 << 28)"} {
		op := build(t, "starlark", args{"script": calling("print('a', 1)", "print()", "print('é\\n')", end), "max_memory_mb": 64})
		if got := printed(t, func() { _, _, _ = op.Process(t.Context(), groups{group(1), group(0)[:0]}) }); got != "a 1\n\né\n\n" {
			t.Errorf("%s: printed %q", end, got)
		}
	}
}

// One error is one line, whatever a script puts into it; and groups do not see what others have left.
func TestScriptsFailInOneLine(t *testing.T) {
	for script, want := range map[string]string{
		calling("fail('x\\ny' * (1 << 20))"):      "script:2: fail: x yx y",
		"seen = []\n" + calling("seen.append(1)"): "script:3: append: cannot append to frozen list",
	} {
		op, err := build(t, "starlark", args{"script": script}), error(nil)
		printed(t, func() { _, _, err = op.Process(t.Context(), groups{group(1)}) })
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 3000 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: got %v, want %q in one line", script, err, want)
		}
	}
}

// What a script prints and returns is bound too: it is kept until the step is done.
func TestScriptsPrintWithinBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("prints 300 MiB")
	}
	op, err := build(t, "starlark", args{"script": calling("for i in range(300):", "  print('x' * (1 << 20))")}), error(nil)
	printed(t, func() { _, _, err = op.Process(t.Context(), groups{group(1)}) })
	if err == nil || !strings.HasSuffix(err.Error(), "script: returned and printed more than 256 MiB in one step") {
		t.Errorf("got %v", err)
	}
}

// A run that ends does not wait for its scripts.
func TestScriptsEndWithTheRun(t *testing.T) {
	op := build(t, "starlark", args{"script": calling("for i in range(1 << 62):", "  pass"), "max_steps": 1 << 62})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, _, err := op.Process(ctx, groups{group(1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWhyAScriptDied(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	for _, c := range []struct{ end, said, want string }{
		{"exit 2", "runtime: out of memory: cannot allocate 4194304-byte block", "needs more memory than max_memory_mb = 7 MiB"},
		{"exit 2", "SIGSEGV: segmentation violation PC=0x43941d m=3", "needs more memory"}, // the collector's, where it gets none
		{"exit 2", "panic: runtime error: makeslice: cap out of range", "needs more memory"},
		{"exit 2", "panic: runtime error: index out of range [1] with length 1", "ended with exit status 2; it said: panic"},
		{"exit 1", "bound its memory: operation not permitted", "ended with exit status 1; it said: bound"},
		{"kill -KILL $$", "", "was ended (signal: killed), as by a system that is out of memory"},
	} {
		end := new(exec.ExitError)
		if err := exec.Command("sh", "-c", c.end).Run(); !errors.As(err, &end) {
			t.Fatal(err)
		}
		if got := (order{MaxMemory: 7}).cause(end, c.said); !strings.Contains(got, c.want) {
			t.Errorf("%s, %s: got %q, want %q", c.end, c.said, got, c.want)
		}
	}
}
