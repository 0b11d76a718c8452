package dataset

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

var preferenceKeys = trinity.TaskFormat{
	PromptKey: "prompt", ResponseKey: "completion", MessagesKey: "messages", ToolsKey: "tools", SystemPromptKey: "sys", ChosenKey: "chosen",
	RejectedKey: "rejected", LabelKey: "label",
}

func TestPreferences(t *testing.T) {
	const ask, ask2 = `{"role": "user", "content": "q"}`, `{"role": "user", "content": "q2"}`
	const good, bad = `{"role": "assistant", "content": "g"}`, `{"role": "assistant", "content": "b"}`
	plain, messages := Format{TaskFormat: preferenceKeys, PromptType: "plaintext"}, Format{TaskFormat: preferenceKeys}
	pairs := messages
	pairs.PromptType = "chatpair"
	nested := plain
	nested.PromptKey, nested.ChosenKey, nested.RejectedKey = "data.prompt", "data.answer1", "data.answer2"
	short := plain
	short.MaxTokens, short.Truncate = 19, true
	const both = "+ user:q;assistant:[g;] - user:q;assistant:[b;]"
	for _, c := range []struct {
		schema string
		format Format
		row    string
		want   string // what is learnt, or part of the error
	}{
		{"dpo", plain, `{"prompt": "q", "chosen": "g", "rejected": "b"}`, both},
		{"dpo", plain, `{"prompt": "q", "chosen": 1, "rejected": ""}`, "+ user:q;assistant:[1;] - user:q;assistant:[;]"},
		{"dpo", plain, `{"prompt": "q", "chosen": "[1]", "rejected": "[{\"role\": \"x\"}]"}`,
			`+ user:q;assistant:[[1];] - user:q;assistant:[[{"role": "x"}];]`},
		{"dpo", Format{TaskFormat: withSystem(preferenceKeys, "S"), PromptType: "plaintext"}, `{"prompt": "q", "chosen": "g", "rejected": "b"}`,
			"+ system:S;user:q;assistant:[g;] - system:S;user:q;assistant:[b;]"},
		{"dpo", nested, `{"id": 3, "data": {"prompt": "q", "answer1": "g", "answer2": "b"}}`, both}, // an annotation tool's export
		{"dpo", short, `{"prompt": "q", "chosen": "good", "rejected": "b"}`, "+ user:q;assistant:[go]… - user:q;assistant:[b;]"},
		{"dpo", messages, `{"messages": [` + ask + `], "chosen": [` + good + `], "rejected": [` + bad + `]}`, both},
		{"dpo", messages, `{"messages": [` + ask + `], "chosen": "g", "rejected": "b"}`, both},
		{"dpo", messages, `{"messages": [` + ask + `], "chosen": "[7]", "rejected": "[oh"}`,
			"+ user:q;assistant:[[7];] - user:q;assistant:[[oh;]"},
		{"dpo", messages, `{"messages": [` + ask + `], "chosen": "[{\"role\": \"assistant\", \"content\": \"g\"}]", "rejected": "b"}`, both},
		{"dpo", messages, `{"messages": [` + ask + `], "chosen": [` + ask + `, ` + good + `], "rejected": [` + ask + `, ` + bad + `]}`, both},
		// the prompt repeated
		{"dpo", messages, `{"chosen": [` + ask + `, ` + good + `], "rejected": [` + ask + `, ` + bad + `]}`, both},
		// and nowhere else
		{"dpo", messages, `{"chosen": [` + ask + `, ` + good + `], "rejected": [` + ask + `, ` + good + `]}`,
			"+ user:q;assistant:[g;] - user:q;assistant:[g;]"},
		{"dpo", messages, `{"chosen": [` + ask + `, ` + good + `, ` + ask2 + `, ` + good + `], "rejected": [` + ask + `, ` + bad + `]}`,
			"+ user:q;assistant:[g;]user:q2;assistant:[g;] - user:q;assistant:[b;]"}, // a whole conversation is the answer
		{"dpo", messages,
			`{"messages": [` + ask + `, ` + bad + `, ` + ask2 + `], "chosen": [` + good + `, ` + ask + `], "rejected": [` + bad + `]}`,
			"+ user:q;assistant:b;user:q2;assistant:[g;] - user:q;assistant:b;user:q2;assistant:[b;]"},
		// earlier turns, and what follows, are not learnt
		{"dpo", messages, `{"tools": [{}], "sys": "S", "messages": [` + ask + `], "chosen": "g", "rejected": "b"}`,
			"+ [{}]system:S;user:q;assistant:[g;] - [{}]system:S;user:q;assistant:[b;]"},
		{"dpo", pairs, `{"prompt": [` + ask + `], "chosen": [` + good + `], "rejected": [` + bad + `]}`, both},

		{"kto", plain, `{"prompt": "q", "completion": "g", "label": true}`, "+ user:q;assistant:[g;]"},
		{"kto", plain, `{"prompt": "q", "completion": "b", "label": 0}`, "- user:q;assistant:[b;]"},
		{"kto", plain, `{"prompt": "q", "completion": "b", "label": "False"}`, "- user:q;assistant:[b;]"},
		{"kto", plain, `{"prompt": "q", "completion": "b", "label": 1.0}`, "+ user:q;assistant:[b;]"},
		{"kto", messages, `{"messages": [` + ask + `], "completion": [` + good + `], "label": true}`, "+ user:q;assistant:[g;]"},
		{"kto", messages, `{"messages": [` + ask + `], "completion": "g", "label": true}`, "+ user:q;assistant:[g;]"},
		{"kto", messages, `{"messages": [` + ask + `, ` + bad + `, ` + ask2 + `, ` + good + `], "label": false}`,
			"- user:q;assistant:b;user:q2;assistant:[g;]"},
		{"kto", pairs, `{"prompt": [` + ask + `], "completion": [` + good + `], "label": true}`, "+ user:q;assistant:[g;]"},

		{"dpo", plain, `{"prompt": "q", "chosen": "g"}`, `no field "rejected"`},
		{"dpo", plain, `{"chosen": "g", "rejected": "b"}`, `no field "prompt"`},
		{"dpo", plain, `{"prompt": "q", "chosen": [` + good + `], "rejected": "b"}`,
			"chosen holds a list, want text: set format.prompt_type: messages"},
		{"dpo", plain, `{"prompt": "q", "chosen": null, "rejected": "b"}`, "chosen holds null, want text"},
		{"dpo", messages, `{"chosen": "g", "rejected": "b"}`, `no field "messages", and chosen and rejected have no message in common`},
		{"dpo", messages, `{"chosen": [` + good + `], "rejected": [` + bad + `]}`, "set format.messages_key"},
		{"dpo", messages, `{"messages": "q", "chosen": "g", "rejected": "b"}`, "messages is text, want a list of messages"},
		{"dpo", messages, `{"messages": [` + ask + `], "chosen": [` + ask + `], "rejected": "b"}`,
			"chosen: a chat without a message of the assistant"},
		{"dpo", messages, `{"messages": [` + ask + `], "chosen": [3], "rejected": "b"}`, "chosen[0] is no message"},
		{"dpo", Format{TaskFormat: preferenceKeys, PromptType: "plaintext", MaxTokens: 18}, `{"prompt": "q", "chosen": "g", "rejected": "bad"}`,
			"19 tokens, more than model.max_model_len 18"},
		{"kto", plain, `{"prompt": "q", "completion": "g"}`, `no field "label"`},
		{"kto", plain, `{"prompt": "q", "completion": "g", "label": 0.5}`, `label holds "0.5", want true or false, or 1 or 0`},
		{"kto", plain, `{"prompt": "q", "completion": "g", "label": "good"}`, `label holds "good"`},
		{"kto", plain, `{"prompt": "q", "label": true}`, `no field "completion"`},
		{"kto", messages, `{"messages": [` + ask + `], "label": true}`,
			`no field "completion", and messages is a chat without a message of the assistant`},
	} {
		got, err := learntOf(c.schema, c.format, c.row)
		if got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s of %s: got %s, %v; want %s", c.schema, c.format.PromptType, c.row, got, err, c.want)
		}
	}
}

// The margin of a pair is with its chosen answer.
func TestPairsHaveMargins(t *testing.T) {
	keys := preferenceKeys
	keys.MarginKey = "data.margin"
	f, err := Formatter("dpo", Format{TaskFormat: keys, PromptType: "plaintext"}, letters{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]any{
		"0.5": 0.5, "3": 3.0, `"-1.25"`: -1.25, `"much"`: `data.margin holds "much", want a number`, "null": "want a number",
		"true": `data.margin holds "true"`, `"NaN"`: "want a number",
	} {
		row, err := decodeRow([]byte(`{"prompt": "q", "chosen": "g", "rejected": "b", "data": {"margin": ` + text + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		pair, err := f.Format(row)
		if message, bad := want.(string); bad {
			if err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("%s: error %v, want %q", text, err, message)
			}
			continue
		}
		if err != nil || pair[0].Info[trinity.MarginInfo] != want || pair[1].Info != nil {
			t.Errorf("%s: %v, %v; want %v at the chosen answer", text, pair, err, want)
		}
	}
}

// Both answers of a pair begin with the same prompt tokens, so that an engine computes them once.
func TestPairsShareTheirPrompt(t *testing.T) {
	f, err := Formatter("dpo", Format{TaskFormat: preferenceKeys, PromptType: "plaintext"}, letters{})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := f.Format(map[string]any{"prompt": "q", "chosen": "same beginning", "rejected": "same end"})
	if err != nil || len(pair) != 2 || pair[0].PromptLen != pair[1].PromptLen || pair[0].PromptLen != len("user:q;assistant:") {
		t.Errorf("%v, %v", pair, err)
	}
}

// A format either returns an error for a row or experiences that training can use.
func FuzzFormats(f *testing.F) {
	for _, seed := range []string{
		`{"prompt": "q", "chosen": "g", "rejected": "b", "completion": "c", "label": true, "text": "t"}`,
		`{"messages": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "g"}], "rejected": "[{\"role\": \"assistant\"}]", "label": "1"}`,
		`{"chosen": [{"role": "user"}, {"role": "assistant"}], "rejected": [{"role": "user"}], "label": 0}`,
		`{"prompt": [], "completion": {}, "label": [], "tools": "[", "sys": 3}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if checkRow(append([]byte(nil), data...)) != nil {
			return
		}
		row, err := decodeRow(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, schema := range []string{"sft", "dpo", "kto", "cpt"} {
			for _, kind := range []string{"messages", "plaintext", "chatpair"} {
				formatter, err := Formatter(schema, Format{TaskFormat: preferenceKeys, PromptType: kind, MaxTokens: 40, Truncate: true}, letters{})
				if err != nil {
					continue // cpt reads plain text
				}
				exps, err := formatter.Format(row)
				if err != nil && (strings.Contains(err.Error(), "\n") || exps != nil) {
					t.Errorf("%s %s: %v, %q", schema, kind, exps, err)
				}
				for _, e := range exps {
					if err := e.Check(); err != nil || e.TrainedTokens() == 0 || len(e.Tokens) > 40 {
						t.Errorf("%s %s: %d tokens, %d trained, %v", schema, kind, len(e.Tokens), e.TrainedTokens(), err)
					}
				}
			}
		}
	})
}
