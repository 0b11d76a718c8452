package reward

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// codeCall is a test that calls a function of a program in Python, or a method of its class Solution.
// LiveCodeBench, TACO, APPS and PRIME have such tests.
type codeCall struct {
	Function  string            `json:"function"`
	Arguments []json.RawMessage `json:"arguments"`
	// ByName says that the one argument is an object, which may hold the arguments by their names.
	ByName bool            `json:"by_name"`
	Want   json.RawMessage `json:"want"`
	// Wrapped says that Want may stand in a list of its own, as some rows of APPS and TACO have it.
	Wrapped bool `json:"wrapped"`
}

// functionOf returns the name of the function that a test calls, "" if it runs the whole program. The
// test, its metadata, the row or the row's metadata may name it. A test that says that it calls one is
// an error if none does.
func functionOf(t *trinity.Task, test map[string]any) (string, error) {
	for _, of := range []any{test, test["metadata"]} {
		if name := functionIn(of); name != "" {
			return name, nil
		}
	}
	if test["testtype"] == "stdin" || test["type"] == "stdin_stdout" {
		return "", nil
	}
	metadata, _ := t.Field("metadata")
	for _, of := range []any{t.Row, metadata} {
		if name := functionIn(of); name != "" {
			return name, nil
		}
	}
	if test["testtype"] != "functional" && test["type"] != "function_call" {
		return "", nil
	}
	return "", errors.New("it calls a function and names none: want fn_name in the test, or func_name in the row's metadata")
}

// functionIn returns the name of a function in an object or its text, "" if there is none.
func functionIn(test any) string {
	if text, ok := test.(string); ok {
		test, _ = jsonWithNumbers(text)
	}
	o, _ := test.(map[string]any)
	for _, key := range []string{"fn_name", "func_name", "entry_point"} {
		if name, _ := o[key].(string); name != "" {
			return name
		}
	}
	return ""
}

// newCodeCall reads a test that calls a function. Its input is a list of arguments, or a text with one
// argument in JSON on each line; beside a text the output is a text in JSON, too.
func newCodeCall(name string, test map[string]any) (c *codeCall, err error) {
	c = &codeCall{Function: name, Arguments: []json.RawMessage{}}
	output, has := test["output"]
	if !has {
		return nil, errors.New("it has no output")
	}
	text, isText := test["input"].(string)
	if !isText {
		list, isList := test["input"].([]any)
		_, c.ByName = test["input"].(map[string]any)
		if !isList && test["input"] != nil {
			list = []any{test["input"]}
		}
		for _, v := range append(slices.Clip(list), output) {
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			c.Arguments = append(c.Arguments, raw)
		}
		last := len(c.Arguments) - 1
		c.Arguments, c.Want, c.Wrapped = c.Arguments[:last], c.Arguments[last], true
		return c, nil
	}
	if text = strings.TrimSpace(text); text != "" {
		for i, line := range strings.Split(text, "\n") {
			if !json.Valid([]byte(line)) {
				return nil, fmt.Errorf("line %d of its input is no JSON, and each is an argument of %s: %.80q", i+1, name, line)
			}
			c.Arguments = append(c.Arguments, json.RawMessage(line))
		}
	}
	wanted, isText := output.(string)
	if !isText {
		c.Want, err = json.Marshal(output)
		return c, err
	}
	if !json.Valid([]byte(wanted)) {
		return nil, fmt.Errorf("its output is no JSON, and is a value of %s: %.80q", name, wanted)
	}
	c.Want = json.RawMessage(wanted)
	return c, nil
}

// jsonWithNumbers decodes a text whose numbers keep their digits.
func jsonWithNumbers(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text follows the value")
	}
	return v, nil
}
