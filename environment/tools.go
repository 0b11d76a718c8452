package environment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// tool is a function that the policy may call.
type tool struct {
	name, description string
	parameters        map[string]any // JSON schemas by name
	required          []string
}

// textParameter returns the schema of a parameter that is a text.
func textParameter(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

// schemas returns the schemas of tools, in the form of OpenAI's API.
func schemas(tools ...tool) (json.RawMessage, error) {
	var all []any
	for _, t := range tools {
		all = append(all, map[string]any{"type": "function", "function": map[string]any{
			"name": t.name, "description": t.description,
			"parameters": map[string]any{"type": "object", "properties": t.parameters, "required": slices.Concat([]string{}, t.required)},
		}})
	}
	return json.Marshal(all)
}

// answerOf returns the message that answers a call: what the tool said, or what was wrong with the
// call.
func answerOf(call trinity.ToolCall, said string, wrong error) trinity.Message {
	if wrong != nil {
		said = "error: " + wrong.Error()
	}
	return trinity.Message{Role: "tool", Content: said, ToolCallID: call.ID, Name: call.Name}
}

// noTool returns the error for a call of a tool that there is not.
func noTool[T any](name string, tools map[string]T) error {
	return fmt.Errorf("there is no tool %q, only %s", name, strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
}

// inMemory is the Close of environments that hold nothing but memory.
type inMemory struct{}

// Close implements [trinity.Environment].
func (inMemory) Close() error { return nil }

// says returns an observation with one message to the policy. words are names in its text, each with what
// stands for it behind it.
func says(text, state string, words ...string) trinity.Observation {
	return trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: strings.NewReplacer(words...).Replace(text)}}, State: state}
}

// checkBy returns a check of tasks: what an episode reads of them can be read.
func checkBy[T any](read func(*trinity.Task) (T, error)) func(*trinity.Task) error {
	return func(t *trinity.Task) error {
		_, err := read(t)
		return err
	}
}

// asNumber returns 1 for what is true, else 0.
func asNumber(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
