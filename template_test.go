package trinity

import (
	"strings"
	"testing"
)

func TestTemplatesAreFilledWithColumns(t *testing.T) {
	task := Task{Row: map[string]any{
		"question": "Where is {it}?", "n": int64(3), "share": 0.5, "new": true, "none": nil, "tags": []any{"a", int64(1)},
		"meta": map[string]any{"topic": "post"}, "a b": "c",
	}}
	for template, want := range map[string]string{
		"{question}":                    "Where is {it}?",
		"Q: {question}\nA:":             "Q: Where is {it}?\nA:",
		"{n}, {share}, {new}, [{none}]": "3, 0.5, true, []",
		"{tags} {meta} {meta.topic}":    `["a",1] {"topic":"post"} post`,
		`{{"topic": "{meta.topic}"}}`:   `{"topic": "post"}`,
		"{a b}{{}}{{{n}}}":              "c{}{3}",
		"no column":                     "no column",
		"{nn}":                          `format.prompt_template: no column "nn": the row has a b, meta, n, new, none, question, share, tags`,
		`{"topic": 1}`:                  "write {{ and }} for braces",
		"{":                             "write {{",
		"{n":                            "write {{",
		"{n{n}}":                        "write {{",
		"n}":                            "write }}",
		"{}":                            "names no column",
	} {
		task.Format = TaskFormat{PromptTemplate: template, PromptKey: "n", SystemTemplate: template, SystemPrompt: "x"}
		for of, fill := range map[string]func() (string, error){"prompt": task.Prompt, "system": task.System} {
			got, err := fill()
			if err != nil {
				got = err.Error()
			}
			if of == "system" {
				got = strings.Replace(got, "system_template", "prompt_template", 1)
			}
			if got != want && (err == nil || !strings.Contains(got, want)) {
				t.Errorf("%s %q: got %q, want %q", of, template, got, want)
			}
		}
	}
}

func TestTemplatesAreValidated(t *testing.T) {
	for _, c := range []struct {
		format TaskFormat
		want   string
	}{
		{TaskFormat{PromptTemplate: "{any} {{}}"}, ""},
		{TaskFormat{PromptTemplate: "{any"}, "prompt_template: "},
		{TaskFormat{SystemTemplate: "any}"}, "system_template: "},
	} {
		if err := c.format.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.format, err, c.want)
		}
	}
}
