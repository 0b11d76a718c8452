package reward

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// askingDriver asks programs and judges their answers in one process: code_reward does it in a sandbox
// and in three processes for each test.
const askingDriver = `
def drive():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    out = os.dup(1)
    os.dup2(2, 1)
    verdicts = []
    for case in json.load(sys.stdin):
        with open("solution.py", "w", encoding="utf-8") as f:
            f.write(case["source"])
        part = json.loads(json.dumps(split_all({"tests": [case["test"]]})[0]))
        try:
            answers = [json.dumps(a) for a in answer(part)]
        except BaseException:
            answers = None
        verdicts.append(verdict(case["test"], answers, case["tolerance"]))
    os.write(out, json.dumps(verdicts).encode())

drive()
`

// codeCase is a test with a program; want is 1, 0 or "open".
type codeCase struct {
	Source    string       `json:"source"`
	Test      codeQuestion `json:"test"`
	Tolerance float64      `json:"tolerance"`
	want      any
}

func checkCases(t *testing.T, cases []codeCase) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "asserts.py")
	text, _ := strings.CutSuffix(string(assertScript), "main()\n")
	if err := os.WriteFile(script, []byte(text+askingDriver), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, script)
	cmd.Dir, cmd.Stdin, cmd.Stderr = filepath.Dir(script), bytes.NewReader(input), os.Stderr
	said, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []struct {
		Holds bool
		Open  string
	}
	if err := json.Unmarshal(said, &verdicts); err != nil || len(verdicts) != len(cases) {
		t.Fatalf("%v: %s", err, said)
	}
	for i, v := range verdicts {
		got := any(0.)
		switch {
		case v.Open != "":
			got = "open"
		case v.Holds:
			got = 1.
		}
		if c := cases[i]; got != c.want {
			t.Errorf("%s %+v\n%s\n%v, want %v", c.Test.Assert, c.Test.Call, c.Source, got, c.want)
		}
	}
}

// scored returns the value of a program's reward, or "open" if it has no valid one.
func scored(t *testing.T, args map[string]any, row map[string]any, source string) any {
	t.Helper()
	in := trinity.RewardInput{Task: &trinity.Task{Row: row}, Response: "```python\n" + source + "\n```", Host: newOpener(t)}
	r, err := build(t, "code_reward", args).Score(t.Context(), in)
	switch {
	case err != nil:
		t.Error(err)
	case !r.Valid && !strings.Contains(r.Reason, "has no verdict"):
		t.Errorf("the reason is %q", r.Reason)
	case r.Valid:
		return r.Value
	}
	return "open"
}

// moduleWith returns the beginning of a program: a module with a type V whose values equal all others.
func moduleWith(name string) string {
	return "import types, sys\n" + name + " = types.ModuleType('" + name + "')\n" + name +
		".V = type('V', (), {'__eq__': lambda a, b: True, '__module__': '" + name + "'})"
}

// counts returns a list of the numbers below n.
func counts(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// The rows are as LiveCodeBench, TACO, APPS, PRIME and DeepCoder have them.
func TestCodeRewardCallsFunctions(t *testing.T) {
	const add = "class Solution:\n    def add(self, a, b):\n        return a + b"
	texts := map[string]any{"fn_name": "add", "inputs": []any{"1\n2", "[1]\n[2]"}, "outputs": []any{"3", "[1, 2]"}}
	one := func(name, input, output any) map[string]any {
		return map[string]any{"fn_name": name, "inputs": []any{input}, "outputs": []any{output}}
	}
	var all []codeCase
	functional := []any{map[string]any{"input": "1\n2", "output": "3", "testtype": "functional"}}
	for _, c := range []struct {
		name   string
		row    map[string]any
		source string
		want   any
	}{
		{"a method", map[string]any{"tests": texts}, add, 1.},
		{"a function", map[string]any{"tests": texts}, "def add(a, b): return a + b", 1.},
		{"typing without an import", map[string]any{"tests": texts}, "class Solution:\n  def add(self, a: List[int], b: Optional[int]):\n" +
			"    return reduce(lambda x, y: x + y, [a, b])", 1.},
		{"another name", map[string]any{"tests": texts}, "def sub(a, b): return a + b", 0.},
		{"prints", map[string]any{"tests": texts}, "print(int(input()) + int(input()))", 0.},
		{"as a text", map[string]any{"tests": `{"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}`}, add, 1.},
		{"many digits", map[string]any{"tests": `{"fn_name": "add", "inputs": [[9007199254740993, 0]],
			"outputs": [9007199254740993]}`}, add, 1.},
		{"wrapped", map[string]any{"tests": one("add", []any{[]any{1}, []any{2}}, []any{[]any{1, 2}})}, add, 1.},
		{"wrapped twice", map[string]any{"tests": one("add", []any{1, 2}, []any{[]any{3}})}, add, 0.},
		{"texts in lists are values", map[string]any{"tests": one("add", []any{"a", "b"}, "ab")}, add, 1.},
		{"a text of a number is a text", map[string]any{"tests": one("add", []any{"1", "2"}, "12")}, add, 1.},
		{"one argument", map[string]any{"tests": one("f", 3, 3)}, "def f(x): return x", 1.},
		{"no argument", map[string]any{"tests": one("f", "", "\"x\"")}, "def f(): return 'x'", 1.},
		{"tuples and keys", map[string]any{"tests": one("f", "2", `[{"1": [1, null]}]`)}, "def f(x): return ({1: (1, None)},)", 1.},
		{"a range", map[string]any{"tests": one("f", "2", "[0, 1]")}, "def f(x): return range(x)", 1.},
		{"a generator", map[string]any{"tests": one("f", "2", "[0, 1]")}, "def f(x): yield from range(x)", 1.},
		{"another generator", map[string]any{"tests": one("f", "2", "[0, 1, 2]")}, "def f(x): yield from range(x)", 0.},
		{"a deque of views", map[string]any{"tests": one("f", "2", "[[2], [3]]")},
			"def f(x): return deque([{2: 3}.keys(), {2: 3}.values()])", 1.},
		{"a set is no list", map[string]any{"tests": one("f", "2", "[2]")}, "def f(x): return {x}", 0.},
		{"another type", map[string]any{"tests": one("f", "2", "[2]")}, "import uuid\ndef f(x): return uuid.uuid4()", 0.},
		{"too large", map[string]any{"tests": one("f", "2", "[2]")}, "import decimal\ndef f(x): return decimal.Decimal('1e99999')", 0.},
		{"too long", map[string]any{"tests": one("f", "2", "[2]")}, "def f(x): return range(10 ** 30)", 0.},
		{"endless", map[string]any{"tests": one("f", "2", "[2]")}, "import itertools\ndef f(x): return itertools.count()", 0.},
		{"long", map[string]any{"tests": []any{map[string]any{"input": []any{}, "output": counts(20_000), "fn_name": "f"}}},
			"def f(): yield from range(20000)", 1.},
		{"a module's value", map[string]any{"tests": one("f", "2", "[2]")}, moduleWith("numpy") + "\ndef f(x): return numpy.V()", 0.},
		{"an own value", map[string]any{"tests": one("f", "2", "2")}, "class V:\n  def __eq__(self, o):\n    while True: pass\n" +
			"def f(x): return V()", 0.},
		{"a method of a class", map[string]any{"tests": one("Sum.add", []any{1, 2}, 3)},
			"class Sum:\n  def add(self, a, b): return a + b", 1.},
		{"a static method", map[string]any{"tests": one("Sum.add", []any{1, 2}, 3)},
			"class Sum:\n  @staticmethod\n  def add(a, b): return a + b", 1.},
		{"a method of Solution", map[string]any{"tests": one("Solution.add", []any{1, 2}, 3)}, add, 1.},
		{"a method as a function", map[string]any{"tests": one("Solution.add", []any{1, 2}, 3)}, "def add(a, b): return a + b", 1.},
		{"the call of a method", map[string]any{"tests": one("Solution().add", []any{1, 2}, 3)}, add, 1.},
		{"another class", map[string]any{"tests": one("Other.add", []any{1, 2}, 3)}, add, 0.},
		{"named arguments", map[string]any{"tests": one("add", map[string]any{"b": 2, "a": 3}, 1)},
			"class Solution:\n  def add(self, a, b): return a - b", 1.},
		{"a default", map[string]any{"tests": one("add", map[string]any{"a": 3}, 1)}, "def add(a, b=2): return a - b", 1.},
		{"an object as argument", map[string]any{"tests": one("f", map[string]any{"x": 3, "y": 4}, 2)}, "def f(d): return len(d)", 1.},
		{"an object in a list", map[string]any{"tests": one("f", []any{map[string]any{"d": 3}}, 1)}, "def f(d): return len(d)", 1.},
		{"entry_point", map[string]any{"tests": []any{map[string]any{"input": "1\n2", "output": "3"}}, "entry_point": "add"}, add, 1.},
		{"the row", map[string]any{"tests": []any{map[string]any{"input": "1\n2", "output": "3"}}, "fn_name": "add"}, add, 1.},
		{"the row's metadata alone", map[string]any{"tests": []any{map[string]any{"input": "1\n2", "output": "3"}},
			"metadata": map[string]any{"func_name": "add"}}, add, 1.},
		{"a program beside the row's function", map[string]any{"tests": []any{map[string]any{"input": "1", "output": "1",
			"testtype": "stdin"}}, "fn_name": "add"}, "print(input())", nil},
		{"the row's metadata", map[string]any{"tests": functional, "metadata": `{"func_name": "add"}`}, add, 1.},
		{"the test's metadata", map[string]any{"tests": []any{map[string]any{"input": "1\n2", "output": "3",
			"metadata": map[string]any{"func_name": "add"}}}}, add, 1.},
		{"lists of lines", map[string]any{"tests": map[string]any{"inputs": []any{[]any{"1", "2"}}, "outputs": []any{[]any{"3"}}}},
			"print(int(input()) + int(input()))", nil},
		{"beside programs", map[string]any{"tests": []any{map[string]any{"input": "1", "output": "1", "testtype": "stdin",
			"fn_name": nil}}}, "print(input())", nil},
		{"no name for programs", map[string]any{"tests": map[string]any{"fn_name": nil, "inputs": []any{"1"}, "outputs": []any{"1"}}},
			"print(input())", nil},
	} {
		tests, err := (&code{TestsKey: "tests", Language: "python"}).tests(&trinity.Task{Row: c.row})
		if err != nil || len(tests.exchanges) > 0 != (c.want == nil) {
			t.Errorf("%s: %+v, %v", c.name, tests, err)
		}
		for _, test := range tests.asked {
			all = append(all, codeCase{Source: c.source, Test: test, want: c.want})
		}
	}
	checkCases(t, all)
}

// A test of HumanEval is a function that gets the program's function.
func TestCodeRewardReadsTestsOfHumanEval(t *testing.T) {
	const check = "\n\nMETADATA = {'author': 'jt'}\n\n\ndef check(candidate):\n    import math\n    '''Numbers.'''\n" +
		"    assert candidate([1.0, 2.0], 0.5) == False\n    assert True, 'so far'\n" +
		"    assert math.isclose(candidate([1.5], x=2), 2.25), 'powers'\n\ncheck(power)\n"
	row := map[string]any{"test": check, "entry_point": "power"}
	tests, err := (&code{TestsKey: "test", Language: "python"}).tests(&trinity.Task{Row: row})
	if err != nil || tests.count() != 1 {
		t.Fatalf("%+v, %v", tests, err)
	}
	var all []codeCase
	for source, want := range map[string]any{
		"def power(v, x): return v[0] ** x if len(v) == 1 else False": 1.,
		"def power(v, x): return v[0] ** x":                           0.,
		"def check(v): pass\ndef power(v, x): return object()":        0.,
	} {
		all = append(all, codeCase{Source: source, Test: tests.asked[0], want: want})
	}
	checkCases(t, all)
	for want, row := range map[string]map[string]any{
		"want it at entry_point":               {"test": check},
		"are a text that is no JSON":           {"test": "assert f(1) == 2", "entry_point": "f"},
		"which are for python, and language i": {"test": check, "entry_point": "power"},
	} {
		_, err := (&code{TestsKey: "test", Language: "bash"}).tests(&trinity.Task{Row: row})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// In the sandbox a function gives what it gives outside of it.
func TestCodeRewardAsksInTheSandbox(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many interpreters")
	}
	args := codeArgs(t, "python")
	calls := map[string]any{"fn_name": "add", "inputs": []any{"1\n2", "[1]\n[2]"}, "outputs": []any{"3", "[1, 2]"}}
	lines := map[string]any{"inputs": []any{[]any{"1", "2"}}, "outputs": []any{[]any{"3"}}}
	args["compile_timeout"] = 2.
	// A program that writes its answer itself cannot end the comparison, and so void its reward.
	writes := func(answer string) string {
		return "import os\ndef add(a, b):\n    for fd in range(3, 20):\n        try: os.write(fd, b'" + answer +
			"')\n        except OSError: pass\n    os._exit(0)"
	}
	for _, c := range []struct {
		tests  any
		source string
		want   any
	}{
		{calls, "def add(a, b):\n    v = 3\n    for _ in range(3000): v = [v]\n    return v", 0.},
		{calls, writes(`[["Fraction", "1e999999999"]]`), 0.},
		{calls, writes("[" + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + "]"), 0.},
		{calls, "class Solution:\n    def add(self, a, b):\n        return a + b", 1.},
		{calls, "def add(a, b): return 3", .5},
		{calls, "import decimal\ndef add(a, b): return decimal.Decimal('1e99999')", 0.},
		{calls, "import itertools\ndef add(a, b): return itertools.count()", 0.},
		{[]any{"assert f() == 1 and __import__('os')._exit(1)"}, "def f(): return 1", 0.}, // the comparison ends
		{lines, "print(int(input()) + int(input()))", 1.},
		{[]any{"assert list(f(2)) == [0, 1]", "assert f(1) == range(1)"}, "def f(n): return range(n)", 1.},
	} {
		if got := scored(t, args, map[string]any{"tests": c.tests}, c.source); got != c.want {
			t.Errorf("%v\n%s\n%v, want %v", c.tests, c.source, got, c.want)
		}
	}
}

func TestCodeRewardRefusesCalls(t *testing.T) {
	args := map[string]any{"isolation": "none"}
	for want, tests := range map[string]any{
		"it calls a function and names none":              []any{map[string]any{"input": "1", "output": "1", "testtype": "functional"}},
		`is no JSON, and each is an argument of f: "b"`:   []any{map[string]any{"input": "1\nb", "output": "1", "fn_name": "f"}},
		`its output is no JSON, and is a value of f: "x"`: []any{map[string]any{"input": "1", "output": "x", "fn_name": "f"}},
		"it has no output":                                []any{map[string]any{"input": "1", "fn_name": "f"}},
		"want the texts input and":                        []any{map[string]any{"input": []any{1}, "output": "1"}},
	} {
		task := &trinity.Task{Row: map[string]any{"tests": tests}}
		if err := trinity.RequirementsOf(build(t, "code_reward", args)).CheckTask(task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", tests, err, want)
		}
	}
	args["language"] = "bash"
	task := &trinity.Task{Row: map[string]any{"tests": []any{map[string]any{"input": "1", "output": "1", "fn_name": "f"}}}}
	err := trinity.RequirementsOf(build(t, "code_reward", args)).CheckTask(task)
	if err == nil || !strings.Contains(err.Error(), "calls of a function (fn_name), which are for python") {
		t.Error(err)
	}
	for _, wrong := range []float64{-1, 1} {
		fn := &code{Language: "python", TestsKey: "tests", Timeout: 1, CompileTimeout: 1, MaxMemory: 64, Isolation: "none", Tolerance: wrong}
		if err := registry.Validate(fn); err == nil || !strings.Contains(err.Error(), "tolerance: must be at least 0") {
			t.Errorf("%g: %v", wrong, err)
		}
	}
}

// A test holds if it holds in Python, whatever type the value has.
func TestCodeRewardComparesValues(t *testing.T) {
	var all []codeCase
	for _, c := range []struct {
		source, test string
		want         any
	}{
		{"from collections import Counter\ndef f(s): return Counter(s)", "assert f('aab') == {'a': 2, 'b': 1}", 1.},
		{"from collections import Counter\ndef f(s): return Counter(s)", "assert f('aab').most_common(1) == [('a', 2)]", 1.},
		{"from collections import Counter\ndef f(s): return Counter(s)", "assert f('aab') == {'a': 2}", 0.},
		{"from collections import *\ndef f(): return OrderedDict(a=1), defaultdict(int, b=2)", "assert f() == ({'a': 1}, {'b': 2})", 1.},
		{"from collections import *\ndef f(): return deque([1, 2])", "from collections import deque\nassert f() == deque([1, 2])", 1.},
		{"from collections import *\ndef f(): return deque([1, 2])", "assert f() == [1, 2]", 0.},
		{"from collections import *\ndef f(): return deque([1, 2])", "assert list(f()) == [1, 2] and f()[0] == 1", 1.},
		{"def f():\n    yield 1\n    yield 2", "assert list(f()) == [1, 2]", 1.},
		{"def f():\n    yield 1\n    yield 2", "assert sorted(f(), reverse=True) == [2, 1] and sum(f()) == 3", 1.},
		{"def f():\n    n = 0\n    while True:\n        yield n\n        n += 1", "assert next(f()) == 0", 1.},
		{"def f():\n    n = 0\n    while True:\n        yield n\n        n += 1",
			"from itertools import islice\nassert list(islice(f(), 3)) == [0, 1, 2]", 1.},
		{"import itertools\ndef f(): return itertools.count()", "assert sum(f()) == 3", 0.},
		{"def f(): return iter(range(20000))", "assert sum(f()) == 199990000", 1.},
		{"def f(x): return map(str, x)", "assert list(f([1, 2])) == ['1', '2']", 1.},
		{"def f(x): return zip(x, x)", "assert dict(f([1, 2])) == {1: 1, 2: 2}", 1.},
		{"def f(n): return range(n)", "assert list(f(3)) == [0, 1, 2]", 1.},
		{"def f(x): return 'ab'", "assert f(1).startswith('a') and not f(1).isupper()", 1.},
		{"class V:\n    def __getattr__(s, n): return lambda *a: True\ndef f(x): return V()", "assert f(1).startswith('a')", 0.},
		{"class V(str):\n    def startswith(s, x): return True\ndef f(x): return V('b')", "assert f(1).startswith('a')", 0.},
		{"class Trie:\n    def startswith(s, x): return x == 'a'", "assert Trie().startswith('a')", 1.},
		{"def f(n): return range(n)", "assert f(3) == range(3) and f(3) != [0, 1, 2]", 1.},
		{"def f(n): return range(n)", "assert [f(3)[i] for i in range(3)] == [0, 1, 2]", 1.},
		{"from decimal import Decimal\ndef f(): return Decimal('1.5')", "assert f() == 1.5", 1.},
		{"from fractions import Fraction\ndef f(): return Fraction(1, 2)", "assert f() == 0.5", 1.},
		{"from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\ndef f(): return P(1)", "assert f() == (1,) and f().x == 1", 1.},
		{"from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)", "assert f() == P(1, 2)", 1.},
		{"from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef f(x): return P(x)", "assert f(1) == P(1) != f(2)", 1.},
		{"from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef f(x): return P(x)", "assert f(1).x == 1", 1.},
		{"class P:\n    x = 1\n    def __len__(self): return 3\ndef f(): return P()", "assert f().x == 1", 1.},
		{"class P:\n    x = 1\n    def __len__(self): return 3\ndef f(): return P()", "assert len(f()) == 3", 1.},
		{"class P:\n    def __float__(self): return 3.\ndef f(): return P()", "import math\nassert math.isclose(f(), 3)", 0.},
		{"class P:\n    def __eq__(self, o): return True\ndef f(): return P()", "assert f() == P()", "open"},
		{"class P:\n    def __eq__(self, o): return True\ndef f(): return P()", "assert f() == 3", 0.},
		{"class P:\n    def __repr__(self): return '3'\ndef f(): return P()", "assert f() == 3", 0.},
		{"def f(): return print", "assert f() == 3", 0.},
		{"def f(): return print", "assert callable(f) and callable(f())", 1.},
		{"class A: pass\nclass B(A): pass", "assert isinstance(B(), A) and not isinstance(A(), B)", 1.},
		{"class A: pass\nclass B(A): pass", "assert issubclass(B, A)", 1.},
		{"class A:\n    x = 1", "assert hasattr(A(), 'x') and not hasattr(A(), 'y')", 1.},
		{"class A: pass", "assert isinstance(A(), int)", 0.},
		{"import uuid\ndef f(): return uuid.UUID(int=1)", "import uuid\nassert f() == uuid.UUID(int=1)", "open"},
		{"import uuid\ndef f(): return uuid.UUID(int=1)", "assert f() == f()", "open"},
		{"import uuid\ndef f(): return uuid.UUID(int=1)", "assert f() == 3", 0.},
		{"import enum\nclass E(enum.IntEnum):\n    A = 1\ndef f(): return E.A", "assert f() == 1", 1.},
		{"import enum\nclass C(enum.Enum):\n    R = 1\n    G = 2\ndef f(): return C.R", "assert f() == C.R != C.G and f() != 1", 1.},
		{"import enum\nclass C(enum.Enum):\n    R = 1\n    G = 2\ndef f(): return C.R", "assert f() == C.G", 0.},
		{"import datetime\ndef f(): return datetime.date(2020, 1, 2)", "import datetime\nassert f() == datetime.date(2020, 1, 2)", 1.},
		{"import datetime\ndef f(): return datetime.timedelta(1)", "from datetime import timedelta\nassert f() == timedelta(hours=24)", 1.},
		{"def f(): return {1: 2}.keys(), {1: 2}.items()", "assert f()[0] == {1} and list(f()[1]) == [(1, 2)]", 1.},
		{"def f(): return float('inf'), 1 + 2j, b'a', frozenset([(1,)])", "assert f() == (float('inf'), 1 + 2j, b'a', {(1,)})", 1.},
		{"def f(): return float('nan')", "import math\nassert math.isnan(f())", 1.},
		{"def f(): return [0] * 50000", "assert f() == [0] * 50000", 1.},
		{"def f(): return 10 ** 5000", "assert f() == 10 ** 5000", 1.},
		{"def f(): return '\\ud800'", "assert f() == '\\ud800'", 1.},
		{"def f(): return range(10 ** 12)", "assert sum(f()) == 1", 0.},
		{"def f(): return range(10 ** 30)", "assert f() == range(10 ** 30) != f()", 0.},
		{"def f(): return [range(10 ** 30)]", "assert f() == [range(10 ** 30)] and f() != [range(3)]", 1.},
		{"from decimal import Decimal\ndef f(): return Decimal('1e99999')", "from decimal import Decimal\nassert f() == Decimal('1e99999')", 1.},
		{"from decimal import Decimal\ndef f(): return Decimal('1e99999')", "assert f() == 1 or f() > 10.5", 0.},
		{moduleWith("numpy") + "\ndef f(): return numpy.V()", "assert f() == 3", 0.},
		{moduleWith("numpy") + "\ndef f(): return numpy.V()", "assert abs(f() - 3) < 1e-6", 0.},
		{moduleWith("numpy") + "\ndef f(): return numpy.V()", "assert f() == [3] or f()", 0.},
		{moduleWith("uuid") + "\ndef f(): return uuid.V()", "import uuid\nassert f() == uuid.UUID(int=1)", "open"},
		{"class P:\n    def __len__(self): return 3\ndef f(): return P()", "assert f()[0] == 3 or f() > 3", 0.},

		{"def f(): return None", "assert f() is None and not f()", 1.},
		{"def f(): return 1", "assert isinstance(f(), int) and f() in (1, 2)", 1.},
	} {
		all = append(all, codeCase{Source: c.source, Test: codeQuestion{Assert: c.test}, want: c.want})
	}
	checkCases(t, all)
}

func TestCodeRewardTakesATolerance(t *testing.T) {
	exact, near := &code{}, &code{Tolerance: 1e-6}
	for _, c := range []struct {
		output, want string
		near         bool
	}{
		{"0.333333", "0.333333333333", true}, {"4.0", "4", true}, {"4", "4.0", true}, {"0.3333", "0.333333333333", false},
		{"1000000.9", "1000000.1", true}, {"1000000.9", "1000000", false}, {"1000001", "1000000", false}, {"04", "4", false},
		{"a 1.0 b\n2.00", "a 1 b\n2", true}, {"1.0\n2", "1 2", false}, {"1.0 2", "1", false}, {"1e3", "1000", true}, {"-0.0", "0", true},
		{"nan", "1", false}, {"inf", "1.0", false}, {"x", "1", false}, {"1e999", "1.0", false}, {"", "1", false},
	} {
		if got := near.printed(c.output, c.want); got != c.near {
			t.Errorf("%q for %q: %v", c.output, c.want, got)
		}
		if exact.printed(c.output, c.want) {
			t.Errorf("%q for %q without a tolerance", c.output, c.want)
		}
	}
	var all []codeCase
	for _, c := range []struct {
		source, test    string
		exact, tolerant float64
	}{
		{"def f(): return .333333", "assert f() == 1 / 3", 0, 1},
		{"def f(): return .333", "assert f() == 1 / 3", 0, 0},
		{"def f(): return [(.1 + .2, 'x')]", "assert f() == [(.3, 'x')]", 0, 1},
		{"def f(): return {'a': .1 + .2}", "assert not f() != {'a': .3}", 0, 1},
		{"def f(): return 1000001", "assert f() == 1000000", 0, 0},
		{"def f(): return float('inf')", "assert f() == 1.5", 0, 0},
		{"def f(): return [-1e400]", "assert f() == [1.5]", 0, 0},
		{"def f(): return float('inf')", "assert f() == float('inf')", 1, 1},
	} {
		test := codeQuestion{Assert: c.test}
		all = append(all, codeCase{Source: c.source, Test: test, want: c.exact}, codeCase{c.source, test, 1e-6, c.tolerant})
	}
	checkCases(t, all)
}
