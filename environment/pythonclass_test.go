package environment

import (
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// pythonFile writes env.py in a directory of its own, which becomes the working directory.
func pythonFile(t *testing.T, code string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("env.py", []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
}

// countingClass counts to a number of the row, and prints and reads what it should not.
const countingClass = `
import random
import sys
from dataclasses import dataclass

class Base:
    def reset(self): raise NotImplementedError
    def step(self, text): raise NotImplementedError

@dataclass
class Counting(Base):
    offset: int = 0

    async def reset(self, to, seed=None, note="none"):
        print("reset", note)
        assert sys.stdin.read() == ""
        self.to, self.at, self.seed = to + self.offset, 0, seed
        return [{"role": "system", "content": "Count."}, {"role": "user", "content": f"to {self.to}, drawn {random.random()}"}]

    def step(self, text):
        self.at += 1
        if text == "five":
            return "seen", True, False, True, {"at": self.at, "deep": {"x": 1}, "said": "5"}
        if text == "unscored":
            return "seen", None, False
        done = self.at >= self.to
        return (None if done else f"at {self.at}"), float(text == str(self.at)), done

    def close(self):
        print("closed")
`

func TestPythonClassConforms(t *testing.T) {
	pythonFile(t, countingClass)
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{Row: map[string]any{"to": 3}},
		Act:  func(int, trinity.Observation) trinity.Action { return trinity.Action{Text: "1"} },
	}, open(t, "python_class", map[string]any{"file": "env.py"}))
}

func TestPythonClassPlays(t *testing.T) {
	pythonFile(t, countingClass)
	env, first := begin(t, "python_class", map[string]any{"file": "env.py", "kwargs": map[string]any{"offset": 1}, "log": "env.log"},
		map[string]any{"to": 1, "note": "é", "unknown": 5})
	if got := first.Messages; len(got) != 2 || got[0].Role != "system" || !strings.HasPrefix(got[1].Content, "to 2, drawn 0.") {
		t.Errorf("begins with %+v", got)
	}
	if again, err := env.Reset(t.Context(), 1); err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("the same seed begins with %+v, %v; before it was %+v", again, err, first)
	}
	if out := step(t, env, "1"); *out.Reward != 1 || out.Done || out.Messages[0].Content != "at 1" || out.State != "at 1" {
		t.Errorf("a step: %+v", out)
	}
	wanted := map[string]float64{"at": 2}
	if out := step(t, env, "five"); *out.Reward != 1 || out.Done || !out.Truncated || !reflect.DeepEqual(out.Metrics, wanted) {
		t.Errorf("five values: %+v", out)
	}
	if out := step(t, env, "unscored"); out.Reward != nil {
		t.Errorf("no reward: %+v", out)
	}
	if out := step(t, env, "4"); !out.Done || *out.Reward != 1 || len(out.Messages) != 0 {
		t.Errorf("the end: %+v", out)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile("env.log"); err != nil || string(log) != "reset é\nreset é\nclosed\n" {
		t.Errorf("the log has %q, %v", log, err)
	}
}

// What is wrong in the file is one line with the file's name, and the line where there is one.
func TestPythonClassThatIsWrong(t *testing.T) {
	class := func(reset, step string) string {
		return "class Own:\n    def reset(self, **row):\n        " + reset + "\n    def step(self, text):\n        " + step + "\n"
	}
	for _, c := range []struct{ name, code, want string }{
		{"nested", class("return self.f(row)", "pass") + "    def f(self, row):\n        return row['b']\n", "env.py:7: reset: KeyError: 'b'"},
		{"syntax", "class Own:\n  def reset(self:\n", "env.py:2: loading the file: SyntaxError: "},
		{"import", "import json\nimport no_such_module\n",
			"env.py:2: loading the file: ModuleNotFoundError: No module named 'no_such_module'"},
		{"exit", "import sys\nsys.exit(3)\n", "env.py:2: loading the file: SystemExit: 3"},
		{"no class", "def reset(): pass\n", "env.py: there is no class with the methods reset(self, **row) and step(self, text)"},
		{"no step", "\nclass Own:\n    def reset(self): pass\n", "env.py:2: class Own has no method step(self, text), which takes a reply"},
		{"no reset", "class Own:\n    def step(self, text): pass\n",
			"env.py:1: class Own has no method reset(self, **row), which begins an episode"},
		{"two classes", class("pass", "pass") + strings.ReplaceAll(class("pass", "pass"), "Own", "Other"),
			"env.py: several classes have reset and step: say which one with class: Own or Other"},
		{"made", "class Own:\n    def __init__(self):\n        1 / 0\n    def reset(self): pass\n    def step(self, text): pass\n",
			"env.py:3: Own(): ZeroDivisionError: division by zero"},
		{"column", "class Own:\n    def reset(self, question, b=1): pass\n    def step(self, text): pass\n",
			"env.py:2: reset takes question, and the row has a: add the column, or give the parameter a default"},
		{"reset raises", class("return row['b']", "pass"), "env.py:3: reset: KeyError: 'b'"},
		{"reset returns nothing", class("pass", "pass"),
			"env.py:2: reset gives the policy None: want a text that is not empty, or a list of messages"},
		{"reset returns numbers", class("return [1, 2]", "pass"), "env.py:2: reset gives the policy [1, 2]: want a text"},
		{"reset hangs", class("while True: pass", "pass"), "env.py:3: reset has not returned after 0.5 s (timeout): it is at this line"},
		{"step raises", class("return 'a'", "raise ValueError('two\\nlines')"), "env.py:5: step: ValueError: two lines"},
		{"step ends the process", class("return 'a'", "import os; os._exit(1)"), "the program ended before it answered"},
		{"step returns a text", class("return 'a'", "return 'b'"), "env.py:4: step returned 'b': want (text, reward, done), or as Gymnasium"},
		{"step returns two", class("return 'a'", "return 'b', 1"), "env.py:4: step returned ('b', 1): want (text, reward, done)"},
		{"reward is a text", class("return 'a'", "return 'b', '1', True"),
			"env.py:4: step returned '1' as reward: want a finite number, or None"},
		{"reward is infinite", class("return 'a'", "return 'b', float('nan'), True"),
			"env.py:4: step returned nan as reward: want a finite number"},
		{"done is a text", class("return 'a'", "return 'b', 1, 'no'"), "env.py:4: step returned 'no' as done: want True or False"},
		{"info is a text", class("return 'a'", "return 'b', 1, True, False, 'x'"), "env.py:4: step returned 'x' as info: want a dict"},
		{"says nothing", class("return 'a'", "return '', 1, False"), "env.py:4: step gives the policy '': want a text that is not empty"},
		{"step sleeps", class("return 'a'", "import time; time.sleep(60)"), "env.py:5: step has not returned after 0.5 s (timeout)"},
		{"another file", "import helper\n" + class("return helper.f(row)", "pass"),
			"env.py:4: reset: AttributeError: module 'helper' has no attribute 'f'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pythonFile(t, c.code)
			if err := os.WriteFile("helper.py", []byte("x = 1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			task := &trinity.Task{Row: map[string]any{"a": 1}}
			env, err := open(t, "python_class", map[string]any{"file": "env.py", "timeout": 0.5}).OpenEnvironment(t.Context(), task)
			if err == nil {
				defer env.Close()
				if _, err = env.Reset(t.Context(), 1); err == nil {
					_, err = env.Step(t.Context(), trinity.Action{Text: "x"})
				}
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
	if err := (&pythonClass{File: "elsewhere.py"}).Validate(); err == nil || err.Error() != "file: there is no elsewhere.py" {
		t.Errorf("a file that is not there: %v", err)
	}
}
