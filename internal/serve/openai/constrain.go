package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/constraint"
)

// Wanted is what a request asks of the text of its replies.
type Wanted struct {
	constraint.Form
	Key      string          // that asks for a form; "" if none does
	Tools    json.RawMessage // that the model sees
	Tool     string          // the only one that may be called; "" for any of them
	Demanded bool            // each reply calls a tool
	Several  bool            // a reply may call several
}

// Constrained sets the constraint of replies. A reply to a request with tools and a form may call one instead.
func (d Defaults) Constrained(p *trinity.SamplingParams, w Wanted) error {
	param := w.Key
	switch {
	case w.Demanded && w.Key != "":
		return Bad(w.Key, "tool_choice demands a call of a tool: leave one of them out")
	case w.Demanded:
		w.Calls = &constraint.Calls{Tools: w.Tools, Name: w.Tool, Several: w.Several && w.Tool == ""}
		param = "tool_choice"
	case w.Key == "":
		return nil
	case len(w.Tools) > 0:
		w.Calls = &constraint.Calls{Tools: w.Tools, Several: w.Several, Maybe: true}
	}
	if p.IgnoreEOS {
		return Bad("ignore_eos", "a reply with a form ends with it: leave ignore_eos or %s out", param)
	}
	c, err := d.Constrain(w.Form)
	if err != nil {
		return Bad(param, "%s: %v", param, err)
	}
	p.Constraint = c
	return nil
}

// Demanded returns whether a tool_choice of OpenAI's APIs demands a call that the model then makes, and of
// which tool; "" for any of them. It checks the choice.
func (d Defaults) Demanded(choice, tools json.RawMessage) (name string, demanded bool, err error) {
	name, demanded = demandedCall(choice)
	switch {
	case d.Constrain == nil || d.Demand.AsAuto:
		return "", false, d.Demand.CheckChoice(choice)
	case !demanded && d.Demand.CheckChoice(choice) != nil:
		return "", false, Bad("tool_choice", "%s is not supported: want auto, none, required or a function", quoted("tool_choice", choice))
	case !demanded:
		return "", false, nil
	}
	if noneIfEmpty(tools) == nil {
		return "", false, Bad("tool_choice", "%s without tools", quoted("tool_choice", choice))
	}
	return name, true, nil
}

// readForm reads what form the replies must have. It is an error if two keys say so, or if the model takes
// no forms.
func (q *request) readForm() (Wanted, error) {
	out := Wanted{Several: q.ParallelToolCalls == nil || *q.ParallelToolCalls}
	for _, k := range []struct {
		key   string
		value json.RawMessage
		read  func(*constraint.Form, json.RawMessage) error
	}{
		{"response_format", q.ResponseFormat, readResponseFormat},
		{"guided_choice", q.GuidedChoice, readChoice},
		{"guided_json", q.GuidedJSON, readSchema},
		{"guided_regex", q.GuidedRegex, readRegex},
		{"json_schema", q.JSONSchema, readSchema},
		{"regex", q.Regex, readRegex},
		{"structured_outputs", q.StructuredOutputs, readStructured},
	} {
		var value any
		isNothing := len(k.value) == 0 || json.Unmarshal(k.value, &value) == nil && asksNothing(value, nothing[k.key])
		if isNothing && (q.limits.Constrain == nil || k.key != "guided_choice" || value == nil) { // one of no texts is refused
			continue
		}
		switch {
		case q.limits.Constrain == nil:
			return out, Bad(k.key, "%s is not supported: leave it out", quoted(k.key, k.value))
		case out.Key != "":
			return out, Bad(k.key, "%s asks for a form, too: leave one of them out", out.Key)
		}
		if err := k.read(&out.Form, k.value); err != nil {
			problem := *ProblemOf(err)
			problem.Param, problem.Message = k.key, strings.Replace(problem.Message, "the request", k.key, 1)
			return out, &problem
		}
		out.Key = k.key
	}
	var err error
	out.Tool, out.Demanded, err = q.limits.Demanded(q.ToolChoice, q.Tools)
	return out, err
}

// nothing are values of keys with a form that ask for none.
var nothing = map[string][]any{"response_format": {map[string]any{}, map[string]any{"type": "text"}}}

// demandedCall returns the tool that a tool_choice demands, "" for any of them.
func demandedCall(choice json.RawMessage) (name string, demanded bool) {
	var word string
	if json.Unmarshal(choice, &word) == nil {
		return "", word == "required"
	}
	var named struct {
		Type, Name string
		Function   struct{ Name string }
	}
	if json.Unmarshal(choice, &named) != nil || named.Type != "function" {
		return "", false
	}
	name = named.Function.Name + named.Name
	return name, name != ""
}

// AnyObject is the schema of a json_object.
var AnyObject = json.RawMessage(`{"type":"object"}`)

// readResponseFormat reads OpenAI's key, with llama.cpp's schema of a json_object.
func readResponseFormat(form *constraint.Form, value json.RawMessage) error {
	var f struct {
		Type       string
		Schema     *json.RawMessage
		JSONSchema struct{ Schema *json.RawMessage } `json:"json_schema"`
	}
	if err := json.Unmarshal(value, &f); err != nil {
		return NotJSON(err)
	}
	switch {
	case f.Type == "json_object" && f.Schema == nil:
		form.Schema = AnyObject
	case f.Type == "json_object":
		form.Schema = *f.Schema
	case f.Type == "json_schema" && f.JSONSchema.Schema != nil:
		form.Schema = *f.JSONSchema.Schema
	case f.Type == "json_schema":
		return Bad("", "response_format has no json_schema.schema")
	default:
		return Bad("", "%s is not supported: want text, json_object or json_schema", quoted("response_format", value))
	}
	return nil
}

// readSchema reads a schema, or a text with it.
func readSchema(form *constraint.Form, value json.RawMessage) error {
	var text string
	if json.Unmarshal(value, &text) == nil {
		value = json.RawMessage(text)
	}
	form.Schema = bytes.TrimSpace(value)
	return nil
}

func readRegex(form *constraint.Form, value json.RawMessage) error {
	if json.Unmarshal(value, &form.Regex) != nil {
		return Bad("", "want a regular expression")
	}
	return nil
}

func readChoice(form *constraint.Form, value json.RawMessage) error {
	if json.Unmarshal(value, &form.Choice) != nil || len(form.Choice) == 0 {
		return Bad("", "want a list of one or more texts")
	}
	return nil
}

// readStructured reads vLLM's object, which has one key of a form.
func readStructured(form *constraint.Form, value json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil {
		return NotJSON(err)
	}
	found := 0
	for key, value := range all {
		text := strings.TrimSpace(string(value))
		if text == "null" || text == "false" || text == `""` {
			continue
		}
		var err error
		switch found++; key {
		case "json":
			err = readSchema(form, value)
		case "json_object":
			form.Schema = AnyObject
		case "regex":
			err = readRegex(form, value)
		case "choice":
			err = readChoice(form, value)
		default:
			return Bad("", "structured_outputs.%s is not supported: want json, json_object, regex or choice", key[:min(len(key), maxIgnoredKey)])
		}
		if err != nil {
			return err
		}
	}
	if found != 1 {
		return Bad("", "structured_outputs has %d forms; want one of json, json_object, regex and choice", found)
	}
	return nil
}
