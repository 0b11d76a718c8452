package reward

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/sandbox"
	"github.com/trinity-go/trinity/wire/score"
)

// exchange is a test of standard input and output.
type exchange struct{ input, output string }

// codeTests are the tests of a row: exchanges or assert statements.
type codeTests struct {
	exchanges []exchange
	asserts   []string
}

func (c *codeTests) count() int { return len(c.exchanges) + len(c.asserts) }

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
		var parsed any
		if json.Unmarshal([]byte(text), &parsed) != nil {
			return all, fmt.Errorf("the tests at %q are a text that is no JSON: want a list", c.TestsKey)
		}
		value = parsed
	}
	if o, ok := value.(map[string]any); ok {
		inputs, _ := o["inputs"].([]any)
		outputs, _ := o["outputs"].([]any)
		if len(inputs) != len(outputs) {
			return all, fmt.Errorf("the tests at %q have %d inputs and %d outputs", c.TestsKey, len(inputs), len(outputs))
		}
		list := make([]any, len(inputs))
		for i := range list {
			list[i] = map[string]any{"input": inputs[i], "output": outputs[i]}
		}
		value = list
	}
	list, _ := value.([]any)
	if len(list) == 0 {
		return all, fmt.Errorf("the tests at %q are no list with tests", c.TestsKey)
	}
	for i, v := range list {
		switch test := v.(type) {
		case string:
			all.asserts = append(all.asserts, test)
		case map[string]any:
			input, hasInput := test["input"].(string)
			output, ok := test["output"].(string)
			if !ok || !hasInput && test["input"] != nil {
				return all, fmt.Errorf("test %d at %q: want the texts input and output", i, c.TestsKey)
			}
			all.exchanges = append(all.exchanges, exchange{input, output})
		default:
			return all, fmt.Errorf("test %d at %q: want {input, output} or an assert statement", i, c.TestsKey)
		}
	}
	switch {
	case all.asserts != nil && all.exchanges != nil:
		err = fmt.Errorf("the tests at %q are of two kinds: want only {input, output} or only assert statements", c.TestsKey)
	case all.asserts != nil && c.Language != "python":
		err = fmt.Errorf("the tests at %q are assert statements, which are for python, and language is %s: want {input, output}",
			c.TestsKey, c.Language)
	}
	return all, err
}

// assertScript splits assert statements, answers them and judges the answers, in three processes.
//
//go:embed codeasserts.py
var assertScript []byte

// asserts returns how many assert statements hold of a program. One process, which has no code of
// the model, finds the expressions that need the program. Another one per statement, which has the
// program, evaluates them and writes their values as text. A third one without the program reads
// these as literals and runs the statements. So nothing that the program does decides what holds:
// it only gives values, and it does not know which ones are expected.
func (c *codeRun) asserts(ctx context.Context, source string, tests []string) (passed int, err error) {
	var parts []struct {
		Imports string   `json:"imports"`
		Queries []string `json:"queries"`
		Wrong   string   `json:"wrong"`
	}
	if err := c.trusted(ctx, "split", map[string]any{"tests": tests}, &parts, func() int { return len(parts) }, len(tests)); err != nil {
		return 0, err
	}
	answers := make([][]string, len(tests)) // nil if there is none
	for i, part := range parts {
		if part.Wrong != "" {
			return 0, fmt.Errorf("test %d: %s", i, part.Wrong)
		}
		question, err := json.Marshal(part)
		if err != nil {
			return 0, err
		}
		p := sandbox.Program{Command: []string{"python3", "asserts.py", "answer"}, Stdin: question,
			Files: map[string][]byte{"asserts.py": assertScript, "solution.py": []byte(source)}}
		p.Limits.Memory, p.Limits.Output = int64(c.MaxMemory)<<20, score.MaxAnswer
		r, err := c.run(ctx, p, c.Timeout)
		if err != nil {
			return 0, err
		}
		if r.TimedOut {
			break
		}
		var said []string
		if r.ExitCode == 0 && !r.Truncated && json.Unmarshal(r.Stdout, &said) == nil && len(said) == len(part.Queries) {
			answers[i] = said
		}
	}
	var held []bool
	job := map[string]any{"tests": tests, "answers": answers}
	if err := c.trusted(ctx, "judge", job, &held, func() int { return len(held) }, len(tests)); err != nil {
		return 0, err
	}
	for i, ok := range held {
		if ok && answers[i] != nil {
			passed++
		}
	}
	return passed, nil
}

// trusted runs a part of the script that has no code of the model. count returns the length of what
// it has written to result, which must be want.
func (c *codeRun) trusted(ctx context.Context, part string, job, result any, count func() int, want int) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	p := sandbox.Program{Command: []string{"python3", "asserts.py", part}, Stdin: text, Files: map[string][]byte{"asserts.py": assertScript}}
	p.Limits.Memory, p.Limits.Output = 1<<30, 16<<20
	r, err := c.run(ctx, p, c.CompileTimeout)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Stdout, result); err != nil || r.ExitCode != 0 {
		return &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: fmt.Errorf("the tests could not be run (%s: status %d %s): %.300s",
			part, r.ExitCode, r.Signal, r.Stderr)}
	}
	if count() != want {
		return &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: fmt.Errorf("%s gave %d results for %d tests", part, count(), want)}
	}
	return nil
}
