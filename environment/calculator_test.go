package environment

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func expression(text string) trinity.Action {
	args, _ := json.Marshal(map[string]string{"expression": text}) // a text is always JSON
	return trinity.Action{Calls: []trinity.ToolCall{{ID: "1", Name: "calculator", Arguments: args}}}
}

var product = &trinity.Task{Row: map[string]any{"q": "2*3?"}, Format: trinity.TaskFormat{PromptKey: "q"}}

func TestCalculatorConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: product,
		Act: func(i int, _ trinity.Observation) trinity.Action {
			if i == 2 {
				return trinity.Action{Text: "4"}
			}
			return expression(fmt.Sprint(i, "*2"))
		},
	}, open(t, "calculator", nil))
}

func TestCalculatorComputes(t *testing.T) {
	for text, want := range map[string]string{
		"12 * 34": "408", "(1+2)*3": "9", "7/2": "3.5", "2**10": "1024", "-3 - -4": "1", "0.1 + 0.2": "0.3", "1e3": "1000",
		"9000000000 * 9000000000": "8.1e+19", "99*99": "9801",
	} {
		out := stepOf(t, expression(text))
		if out.ToolError || out.Done || out.Messages[0].Content != want || out.Messages[0].Role != "tool" || out.Messages[0].ToolCallID != "1" {
			t.Errorf("%s: %+v, want %s", text, out, want)
		}
	}
	const none = "no expression of numbers"
	for text, want := range map[string]string{
		"": none, "12 *": none, "len('a')": none, "'a' + 'b'": none, "x": none, "1..1000000": none, "[1]": none, "true ? 1 : 2": none,
		"1/0": "no value", "1 < 2": "no value", strings.Repeat("1+", 300) + "1": "more than 500 bytes",
	} {
		if out := stepOf(t, expression(text)); !out.ToolError || !strings.Contains(out.Messages[0].Content, want) {
			t.Errorf("%s: %+v, want an error with %q", text, out, want)
		}
	}
	wrong := expression("1")
	wrong.Calls[0].Name = "abacus"
	bare := expression("1")
	bare.Calls[0].Arguments = json.RawMessage(`{"x": 1}`)
	for _, a := range []trinity.Action{wrong, bare} {
		if out := stepOf(t, a); !out.ToolError {
			t.Errorf("%v: %+v", a, out)
		}
	}
}

func stepOf(t *testing.T, a trinity.Action) trinity.Outcome {
	t.Helper()
	env, err := open(t, "calculator", nil).OpenEnvironment(t.Context(), product)
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	out, err := env.Step(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
