package reward

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/internal/wire/score"
)

// exchange is a test of standard input and output.
type exchange struct{ input, output string }

// codeTests are the tests of a row: exchanges, or questions to a program in Python.
type codeTests struct {
	exchanges []exchange
	asked     []codeQuestion
}

// codeQuestion is one test that asks a program in Python for values: assert statements or a call.
type codeQuestion struct {
	Assert string    `json:"assert,omitempty"`
	Entry  string    `json:"entry,omitempty"` // the function for a check(candidate) with the statements
	Call   *codeCall `json:"call,omitempty"`
}

func (c *codeTests) count() int { return len(c.exchanges) + len(c.asked) }

// tests returns the tests of a row.
func (c *code) tests(t *trinity.Task) (all codeTests, err error) {
	if t == nil {
		return all, fmt.Errorf("no row with tests at %s", c.TestsKey)
	}
	value, ok := t.Field(c.TestsKey)
	if !ok || value == nil {
		return all, fmt.Errorf("tests_key: the row has no tests at %q", c.TestsKey)
	}
	if text, ok := value.(string); ok {
		if value, err = jsonWithNumbers(text); err != nil {
			value, err = checkOf(t, text)
		}
		if err != nil {
			return all, fmt.Errorf("the tests at %q are %w", c.TestsKey, err)
		}
	}
	if o, ok := value.(map[string]any); ok {
		inputs, _ := o["inputs"].([]any)
		outputs, _ := o["outputs"].([]any)
		if len(inputs) != len(outputs) {
			return all, fmt.Errorf("the tests at %q have %d inputs and %d outputs", c.TestsKey, len(inputs), len(outputs))
		}
		list := make([]any, len(inputs))
		for i := range list {
			list[i] = map[string]any{"input": inputs[i], "output": outputs[i], "fn_name": o["fn_name"]}
		}
		value = list
	}
	list, _ := value.([]any)
	if len(list) == 0 {
		return all, fmt.Errorf("the tests at %q are no list with tests", c.TestsKey)
	}
	for i, v := range list {
		if err := all.add(t, v); err != nil {
			return all, fmt.Errorf("test %d at %q: %w", i, c.TestsKey, err)
		}
	}
	switch {
	case all.asked != nil && all.exchanges != nil:
		err = fmt.Errorf("the tests at %q are of two kinds: want only {input, output} or only assert statements and calls", c.TestsKey)
	case all.asked != nil && c.Language != "python":
		kind := "assert statements"
		if all.asked[0].Call != nil {
			kind = "calls of a function (fn_name)"
		}
		err = fmt.Errorf("the tests at %q are %s, which are for python, and language is %s: want {input, output}", c.TestsKey, kind, c.Language)
	}
	return all, err
}

// add reads one test of a row.
func (c *codeTests) add(t *trinity.Task, v any) error {
	switch test := v.(type) {
	case string:
		c.asked = append(c.asked, codeQuestion{Assert: test})
		return nil
	case codeQuestion:
		c.asked = append(c.asked, test)
		return nil
	case map[string]any:
		name, err := functionOf(t, test)
		if err != nil {
			return err
		}
		if name != "" {
			call, err := newCodeCall(name, test)
			c.asked = append(c.asked, codeQuestion{Call: call})
			return err
		}
		input, hasInput := linesOf(test["input"])
		output, ok := linesOf(test["output"])
		if !ok || !hasInput && test["input"] != nil {
			return errors.New("want the texts input and output, or fn_name beside values of a function")
		}
		c.exchanges = append(c.exchanges, exchange{input, output})
		return nil
	}
	return errors.New("want {input, output} or an assert statement")
}

// checkOf returns the test of a text as rows of HumanEval have it: a function check, which gets the
// function that entry_point names.
func checkOf(t *trinity.Task, text string) (any, error) {
	name := functionIn(t.Row)
	switch {
	case !strings.Contains(text, "def check("):
		return nil, errors.New("a text that is no JSON: want a list")
	case name == "":
		return nil, errors.New("a function check(candidate), and the row names no function: want it at entry_point")
	}
	return []any{codeQuestion{Assert: text, Entry: name}}, nil
}

// linesOf returns a text, or the lines of a list of texts, as APPS and TACO have them.
func linesOf(v any) (text string, ok bool) {
	list, isList := v.([]any)
	if !isList {
		text, ok = v.(string)
		return text, ok
	}
	lines := make([]string, len(list))
	for i, one := range list {
		if lines[i], ok = one.(string); !ok {
			return "", false
		}
	}
	return strings.Join(lines, "\n"), true
}

// assertScript splits assert statements, answers them and judges the answers, in three processes.
//
//go:embed codeasserts.py
var assertScript []byte

// answers returns how many questions a program answers rightly, and why a value cannot be compared, ""
// if all can. One process, which has no code of the model, finds the expressions that need the program.
// Another one per test, which has the program, evaluates them or calls the function, and describes the
// values. A third one without the program builds values from the descriptions and compares. So nothing
// that the program does decides what holds: it only gives values, and it does not know which ones
// are expected.
func (c *codeRun) answers(ctx context.Context, source string, tests []codeQuestion) (passed int, open string, err error) {
	type part struct {
		Imports   string            `json:"imports,omitempty"`
		Queries   []string          `json:"queries,omitempty"`
		Function  string            `json:"function,omitempty"`
		Arguments []json.RawMessage `json:"arguments,omitempty"`
		ByName    bool              `json:"by_name,omitempty"`
		Wrong     string            `json:"wrong,omitempty"`
	}
	var parts []part
	if err := c.trusted(ctx, "split", map[string]any{"tests": tests}, &parts, func() int { return len(parts) }, len(tests)); err != nil {
		return 0, "", err
	}
	given := make([][]string, len(tests)) // JSON as text: one that cannot be read fails its own test; nil if there is none
	for i, part := range parts {
		if part.Wrong != "" {
			return 0, "", fmt.Errorf("test %d: %s", i, part.Wrong)
		}
		question, err := json.Marshal(part)
		if err != nil {
			return 0, "", err
		}
		p := sandbox.Program{Command: []string{"python3", "asserts.py", "answer"}, Stdin: question,
			Files: map[string][]byte{"asserts.py": assertScript, "solution.py": []byte(source)}}
		p.Limits.Memory, p.Limits.Output = int64(c.args.MaxMemory)<<20, score.MaxAnswer
		r, err := c.run(ctx, p, c.args.Timeout)
		if err != nil {
			return 0, "", err
		}
		if r.TimedOut {
			break
		}
		var said []json.RawMessage
		if r.ExitCode == 0 && !r.Truncated && json.Unmarshal(r.Stdout, &said) == nil && len(said) == len(part.Queries) {
			given[i] = []string{}
			for _, raw := range said {
				given[i] = append(given[i], string(raw))
			}
		}
	}
	var verdicts []struct {
		Holds bool
		Open  string
	}
	judge := func(given [][]string) error {
		job := map[string]any{"tests": tests, "answers": given, "tolerance": c.args.Tolerance}
		return c.trusted(ctx, "judge", job, &verdicts, func() int { return len(verdicts) }, len(tests))
	}
	if err = judge(given); errors.Is(err, errTestsBroke) {
		// If it works without the program's values, these broke it: else a bad program could void its reward.
		return 0, "", judge(make([][]string, len(tests)))
	} else if err != nil {
		return 0, "", err
	}
	for i, v := range verdicts {
		switch {
		case v.Open != "":
			return 0, fmt.Sprintf("test %d has no verdict: %s", i, v.Open), nil
		case v.Holds && given[i] != nil:
			passed++
		}
	}
	return passed, "", nil
}

var errTestsBroke = errors.New("the tests could not be run")

// trusted runs a part of the script that has no code of the model. count returns the length of what
// it has written to result, which must be want. The error wraps errTestsBroke if it ended without a result.
func (c *codeRun) trusted(ctx context.Context, part string, job, result any, count func() int, want int) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	p := sandbox.Program{Command: []string{"python3", "asserts.py", part}, Stdin: text, Files: map[string][]byte{"asserts.py": assertScript}}
	p.Limits.Memory, p.Limits.Output = 1<<30, 16<<20
	r, err := c.run(ctx, p, c.args.CompileTimeout)
	if err != nil {
		return err
	}
	if r.TimedOut {
		return &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: fmt.Errorf("%w (%s): they ran out of time", errTestsBroke, part)}
	}
	if err := json.Unmarshal(r.Stdout, result); err != nil || r.ExitCode != 0 {
		return &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: fmt.Errorf("%w (%s: status %d %s): %.300s",
			errTestsBroke, part, r.ExitCode, r.Signal, r.Stderr)}
	}
	if count() != want {
		return &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: fmt.Errorf("%s gave %d results for %d tests", part, count(), want)}
	}
	return nil
}
