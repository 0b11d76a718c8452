package reward

import (
	"errors"
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

// codeArgs returns arguments for a language, with the best isolation that this machine has. It skips
// the test if the sandbox lacks the language's interpreter or compiler.
func codeArgs(t *testing.T, language string) map[string]any {
	t.Helper()
	program := map[string]string{"python": "python3", "bash": "bash", "javascript": "node", "cpp": "g++", "go": "go"}[language]
	isolation := "none"
	if _, err := sandbox.New(sandbox.Best); err == nil {
		isolation = "best"
	}
	if !slices.ContainsFunc(filepath.SplitList(sandbox.Path), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, program))
		return err == nil
	}) {
		t.Skip("no " + program + " in " + sandbox.Path)
	}
	return map[string]any{"language": language, "isolation": isolation, "timeout": 2}
}

func codeInput(t *testing.T, reply string, tests any) trinity.RewardInput {
	return trinity.RewardInput{Task: &trinity.Task{Row: map[string]any{"tests": tests}}, Response: reply, Host: newOpener(t)}
}

// exchanges of a program that doubles a number.
var doubles = []any{
	map[string]any{"input": "2\n", "output": "4\n"}, map[string]any{"input": "0\n", "output": "0"},
	map[string]any{"input": "-7\n", "output": "-14\n"}, map[string]any{"input": "50\n", "output": "100\n"},
}

func TestCodeRewardRunsPrograms(t *testing.T) {
	for _, c := range []struct {
		language, name, source string
		want                   float64
	}{
		{"python", "right", "Here it is:\n```python\nprint(2 * int(input()))\n```\nIt doubles.", 1},
		{"python", "the last block counts", "```python\nprint(1)\n```\nBetter:\n```py\nprint(2 * int(input()))\n```\n" +
			"```json\n{}\n```", 1},
		{"python", "no block", "print(2 * int(input()))", 1},
		{"python", "only another language", "```c\nprint(2 * int(input()))\n```", 0},
		{"python", "half", "print(2 * max(0, int(input()) % 50))", .5},
		{"python", "a failing status", "print(2 * int(input()))\nraise SystemExit(1)", 0},
		{"python", "a syntax error", "print(2 *", 0},
		{"python", "endless", "while True: pass", 0},
		{"python", "endless output", "while True: print('4')", 0},
		{"python", "no reply", "", 0},
		{"bash", "right", "```bash\nread n; echo $((2 * n))\n```", 1},
		{"bash", "wrong", "```bash\nread n; echo $((3 * n))\n```", .25},
		{"javascript", "right", "```js\nconsole.log(2 * parseInt(require('fs').readFileSync(0, 'utf8')) + 0)\n```", 1},
		{"javascript", "a syntax error", "```js\nconsole.log(2 * \n```", 0},
		{"cpp", "right", "```cpp\n#include <iostream>\nint main() { int n; std::cin >> n; std::cout << 2 * n << '\\n'; }\n```", 1},
		{"cpp", "a compile error", "```cpp\nint main() { return x; }\n```", 0},
		{"cpp", "a file of the machine", "```cpp\n#include \"/etc/shadow\"\nint main() {}\n```", 0},
		{"go", "right", "```go\npackage main\nimport \"fmt\"\nfunc main() { var n int; fmt.Scan(&n); fmt.Println(2 * n) }\n```", 1},
		{"go", "a compile error", "```go\npackage main\nfunc main() { x }\n```", 0},
	} {
		t.Run(c.language+" "+c.name, func(t *testing.T) {
			if testing.Short() && c.language != "bash" {
				t.Skip("starts interpreters and compilers")
			}
			if c.language == "go" {
				trinitytest.Long(t, "compiles Go's standard library", "reward", "internal/sandbox")
			}
			fn := build(t, "code_reward", codeArgs(t, c.language))
			r, err := fn.Score(t.Context(), codeInput(t, c.source, doubles))
			if err != nil || !r.Valid || r.Value != c.want || r.Parts["tests"] != c.want {
				t.Errorf("%+v, %v, want %g", r, err, c.want)
			}
		})
	}
}

// A program gives values and decides nothing: it gets no test that it does not pass, whatever it
// does to its own process.
func TestCodeRewardIsNotGamed(t *testing.T) {
	args := codeArgs(t, "python")
	tests := []any{"assert add(1, 2) == 3", "import math\nassert math.isclose(add(0.5, 2), 2.5)",
		"assert sorted([add(4, 4), add(1, 1)]) == [2, 8]",
		"assert add([1], [2]) == [1, 2], 'lists'"}
	const wrong = "def add(a, b): return None\n"
	for name, c := range map[string]struct {
		source string
		want   float64
	}{
		"honest":            {"def add(a, b):\n    print('true')\n    return a + b", 1},
		"half":              {"def add(a, b): return a + b if isinstance(a, int) else 0", .5},
		"exits with 0":      {"import os\nos._exit(0)", 0},
		"raises SystemExit": {"raise SystemExit(0)", 0},
		"exits when asked":  {"def add(a, b): raise SystemExit(0)", 0},
		"prints verdicts":   {wrong + "import os\nos.write(1, b'[true, true, true, true]')\nos._exit(0)", 0},
		"writes verdicts": {wrong + "import os\nfor fd in range(1, 20):\n" +
			"  try: os.write(fd, b'[true]')\n  except OSError: pass\nos._exit(0)", 0},
		"equals everything":      {"class E:\n  def __eq__(s, o): return True\n  def __repr__(s): return 'E()'\ndef add(a, b): return E()", 0},
		"is a name of the judge": {"class E:\n  def __repr__(s): return '__answers'\ndef add(a, b): return E()", 0},
		"is code for the judge":  {"class E:\n  def __repr__(s): return '__import__(\"os\")._exit(0)'\ndef add(a, b): return E()", 0},
		"patches the comparison": {wrong + "import builtins, ast, json\n" +
			"builtins.all = builtins.sorted = lambda *a: True\nast.literal_eval = lambda x: 3", 0},
		"always gives one value": {"import builtins\nbuiltins.repr = lambda x: '3'\ndef add(a, b): return 3", .25},
		"looks for the tests": {"import os, re\ntext = ''.join(open(f).read() for f in os.listdir('.'))\n" +
			"add = lambda a, b: eval(re.search(r'assert add\\(1, 2\\) == (\\d)', text)[1])", 0},
		"looks at its callers": {"import sys\ndef add(a, b):\n  f = sys._getframe()\n  while f:\n" +
			"    for v in list(f.f_locals.values()) + list(f.f_globals.values()):\n" +
			"      if isinstance(v, str) and '=' + '= 3' in v: return 3\n    f = f.f_back", 0},
		"nests deeply":             {"class E:\n  def __repr__(s): return '[' * 9000 + ']' * 9000\ndef add(a, b): return E()", 0},
		"does not compile":         {"def add(a, b) return a + b", 0},
		"hangs":                    {"def add(a, b):\n  while True: pass", 0},
		"asks for too much memory": {"def add(a, b): return len('x' * (1 << 40))", 0},
		"has another name":         {"def plus(a, b): return a + b", 0},
		"kills its process":        {"import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\nos.abort()", 0},
		"replaces the script":      {wrong + "open('asserts.py', 'w').write('print([True] * 4)')", 0},
		"leaves a daemon that lies": {wrong + "import os, time\nif os.fork() == 0:\n" +
			"  time.sleep(.3)\n  os.write(1, b'[true]')\n  os._exit(0)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "honest" && name != "exits with 0" {
				t.Skip("starts many interpreters")
			}
			r, err := build(t, "code_reward", args).Score(t.Context(), codeInput(t, "```python\n"+c.source+"\n```", tests))
			if err != nil || !r.Valid || r.Value != c.want {
				t.Errorf("%+v, %v, want %g", r, err, c.want)
			}
		})
	}
}

// A sandbox that fails, and tests that cannot be run, are never reward 0.
func TestCodeRewardFails(t *testing.T) {
	args := codeArgs(t, "python")
	folder := filepath.Join(t.TempDir(), "removed")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	missing := map[string]any{"read": []any{folder}}
	for k, v := range args {
		missing[k] = v
	}
	broken := build(t, "code_reward", missing)
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	_, err := broken.Score(t.Context(), codeInput(t, "print(1)", doubles))
	if of := (*trinity.RolloutError)(nil); !errors.As(err, &of) || of.Kind != trinity.FailedSandbox {
		t.Errorf("%v is no failure of the sandbox", err)
	}
	fn := build(t, "code_reward", args)
	for want, tests := range map[string]any{
		"no tests at":             nil,
		"no list":                 []any{},
		"is no JSON":              "assert f(1) == 2",
		"1 inputs and 2 outputs":  map[string]any{"inputs": []any{"1"}, "outputs": []any{"1", "2"}},
		"input and output":        []any{map[string]any{"input": 1.0, "output": "1"}},
		"two kinds":               []any{"assert f(1) == 1", map[string]any{"input": "1", "output": "1"}},
		"want {input, output} or": []any{7.0},
	} {
		in := codeInput(t, "def f(x): return x", tests)
		if r, err := fn.Score(t.Context(), in); err != nil || r.Valid || !strings.Contains(r.Reason, want) {
			t.Errorf("%v: %+v, %v, want %q", tests, r, err, want)
		}
		if err := trinity.RequirementsOf(fn).CheckTask(in.Task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the check says %v, want %q", tests, err, want)
		}
	}
	for want, test := range map[string]string{
		"imports and assert statements only": "x = 1\nassert f(x) == 1",
		"asks nothing of the program":        "assert 1 == 1",
		"asserts nothing":                    "import math",
		"the variable 'x'":                   "assert all(f(x) for x in range(3))",
		"invalid syntax":                     "assert f(1) = 1",
	} {
		if _, err := fn.Score(t.Context(), codeInput(t, "def f(x): return x", []any{test})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", test, err, want)
		}
	}
	for want, wrong := range map[string][2]any{
		`language: want python`: {"language", "perl"}, "isolation: want full, best or none": {"isolation", "fully"},
		"read: ":    {"read", []any{folder}},
		"timeout: ": {"timeout", 0}, "max_memory_mb: ": {"max_memory_mb", 1},
	} {
		bad := map[string]any{"isolation": args["isolation"], wrong[0].(string): wrong[1]}
		if _, err := registry.Rewards.Build("code_reward", bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", wrong, err, want)
		}
	}
	for language := range languages { // the check needs no interpreter
		args["language"] = language
		in := codeInput(t, "1", []any{"assert f(1) == 1"})
		err = trinity.RequirementsOf(build(t, "code_reward", args)).CheckTask(in.Task)
		if want := "which are for python, and language is " + language + ": want {input, output}"; language != "python" &&
			(err == nil || !strings.Contains(err.Error(), want)) || language == "python" && err != nil {
			t.Errorf("%s: %v", language, err)
		}
	}
}
