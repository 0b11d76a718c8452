package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model/renderer"
)

// rewrites is a template of Qwen3's kind: it writes thinking in the last turn only.
const rewrites = `{%- set ns=namespace(last=0) -%}{%- for m in messages -%}{%- if m.role=='user' -%}{%- set ns.last=loop.index0 -%}
{%- endif -%}{%- endfor -%}{%- for m in messages -%}{%- if m.role=='assistant' -%}{%- if loop.index0 > ns.last -%}
{{ '<|im_start|>assistant\n<think>\n' +
(m.reasoning_content or '') + '\n</think>\n\n' + m.content }}{%- else -%}{{ '<|im_start|>assistant\n' + m.content }}{%- endif -%}
{{ '<|im_end|>\n' }}{%- else -%}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}`

// Of users' chats every turn is learned in the history that its prompt has, and no key is lost.
func TestDemonstrationsOfUsers(t *testing.T) {
	tok, err := tokenizer.Load(filepath.Join("..", "..", "model", "renderer", "testdata", "tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	shared := func(kind, file string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "field", kind, file))
		if err != nil {
			t.Logf("the inputs of users are not here: %v", err)
		}
		return string(data)
	}
	const thinks = `{"messages": [{"role": "user", "content": "add 1"}, {"role": "assistant", "content": "two", "thinking": "one and one"}]}`
	const turns = `{"messages": [{"role": "user", "content": "add 1"}, {"role": "assistant", "content": "two"}, ` +
		`{"role": "user", "content": "add 2"}, {"role": "assistant", "content": "three", "reasoning": "hm"}]}`
	for _, c := range []struct {
		template, row string
		want          []string // the learned texts, or part of the error
	}{
		{rewrites, thinks, []string{"<think>\none and one\n</think>\n\ntwo<|im_end|>"}},
		{rewrites, turns, []string{"<think>\n\n</think>\n\ntwo<|im_end|>", "<think>\nhm\n</think>\n\nthree<|im_end|>"}},
		{renderer.ChatML, thinks, []string{"messages[1], of the assistant, has the key reasoning_content or reasoning or thinking"}},
		{rewrites, strings.Replace(turns, `"reasoning"`, `"rationale"`, 1),
			[]string{"messages[3], of the assistant, has the key rationale, which"}},
		{rewrites, shared("sft-thinking-key", "input.jsonl"), []string{"<think>\none and one\n</think>\n\ntwo<|im_end|>"}},
		{shared("sft-all-turns", "template.jinja"), shared("sft-all-turns", "input.jsonl"),
			[]string{"<think>\n\n</think>\n\ntwo<|im_end|>", "<think>\n\n</think>\n\nthree<|im_end|>"}},
	} {
		if c.row == "" || c.template == "" {
			continue
		}
		end, _ := tok.TokenID("<|im_end|>")
		text, err := renderer.New(tok, renderer.Options{Template: c.template, StopTokens: []int32{end}})
		if err != nil {
			t.Fatal(err)
		}
		format, err := dataset.Formatter("sft", dataset.Format{TaskFormat: trinity.TaskFormat{MessagesKey: "messages"}, AllTurns: true}, text)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		if err := os.WriteFile(path, []byte(c.row), 0o600); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range rowsOf(t, path) {
			exps, err := format.Format(row)
			if err != nil {
				got = append(got, err.Error())
			}
			for _, e := range exps {
				got = append(got, tok.Decode(e.Tokens[e.PromptLen:len(e.Mask)-1], false)) // the template writes a line after the turn
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.row, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.row, got[i], want)
			}
		}
	}
}
