package gateway

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/anthropic"
)

// claudeCode is a request as Claude Code 2.1.332 sends it, with fewer words and tools.
const claudeCode = `{"model":"policy","max_tokens":32000,"stream":true,"metadata":{"user_id":"{\"session_id\":\"1\"}"},` +
	`"thinking":{"type":"adaptive","display":"omitted"},` +
	`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"high"},` +
	`"system":[{"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}}],` +
	`"tools":[{"name":"ToolSearch","input_schema":{"type":"object"}},{"name":"f","defer_loading":true,"input_schema":{"type":"object"}}],` +
	`"messages":[{"role":"user","content":[{"type":"text","text":"say 'hi'"}]},` +
	`{"role":"system","content":[],"output_config":{"effort":"low"}}`

// Claude Code always sends fields without effect for the policy. The log names each of them once.
func TestClaudeCodeIsAnswered(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	const found = `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":""},{"type":"text","text":"hi"}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"tool_reference","tool_name":"f"}]},` +
		`{"type":"text","text":"'yes'"}]}`
	for i, more := range []string{``, found} {
		status, text := e.ask("/messages?beta=true", claudeCode+more+`]}`, "anthropic-beta", "context-management-2025-06-27,effort-2025-11-24")
		want := []string{`"output_tokens":3}`, `"output_tokens":4}`}[i]
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d %s", status, text)
		}
	}
	slices.Sort(e.said)
	want := []string{
		`requests have a key "context_management", which has no effect`, `requests have a key "output_config.effort", which has no effect`,
		`requests have tools, which the model's chat template leaves out: the policy does not see them; ` +
			`put a template with tools into chat_template.jinja beside the model, or set model.chat_template_path`,
	}
	if !slices.Equal(e.said, want) {
		t.Errorf("said %q, want %q", e.said, want)
	}
	_, got := e.recorded()
	if want := `tool:{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`; !strings.Contains(got, want) {
		t.Errorf("recorded %s, want the deferred tool where it is referred to: %s", got, want)
	}
}

// A field of the API either says nothing about the reply, has no effect that the log names, or is refused.
func TestFieldsOfMessages(t *testing.T) {
	const chat = `"max_tokens":9,"messages":[{"role":"user","content":"say 'a'"}]`
	for _, c := range []struct{ field, said, refused string }{
		{`"cache_control":{"type":"ephemeral"}`, ``, ``},
		{`"inference_geo":"us","diagnostics":{},"anthropic_version":"bedrock-2023-05-31"`, ``, ``},
		{`"context_management":null,"output_config":{},"speed":null`, ``, ``},
		{`"output_config":{"effort":null,"format":null}`, ``, ``},
		{`"context_management":{"edits":[]}`, `context_management`, ``},
		{`"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`, `context_management`, ``},
		{`"output_config":{"effort":"max","task_budget":{"type":"tokens","total":9}}`, `output_config.effort output_config.task_budget`, ``},
		{`"speed":"fast","fallbacks":[{"model":"x"}],"compaction":{}`, `compaction fallbacks speed`, ``},
		{`"output_config":{"format":{"type":"json_schema","schema":{}}}`, ``, `output_config: its key \"format\" is not supported`},
		{`"output_config":{"length":3}`, ``, `output_config: its key \"length\" is not supported`},
		{`"output_config":"high"`, ``, `output_config has a value of another type`},
		{`"container":"x"`, ``, `container: it is not supported`},
		{`"thread":{"type":"create"}`, ``, `thread: it is not supported`},
		{`"tools":[{"type":"tool_search_tool_regex_20251119","name":"s"}]`, ``, `a tool of type`},
	} {
		e := open(t, trinity.EndpointOptions{})
		status, text := e.ask("/messages", "{"+c.field+","+chat+"}")
		wrong := status != http.StatusOK
		if c.refused != "" {
			wrong = status != http.StatusBadRequest || !strings.Contains(text, c.refused)
		}
		if wrong {
			t.Errorf("%s: %d %s", c.field, status, text)
		}
		var said []string
		for _, line := range e.said {
			said = append(said, strings.Split(line, `"`)[1])
		}
		if got := strings.Join(said, " "); got != c.said {
			t.Errorf("%s: said %q, want %q", c.field, got, c.said)
		}
	}
	e := open(t, trinity.EndpointOptions{})
	status, text := e.ask("/messages", `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x",`+
		`"content":[{"type":"tool_reference","tool_name":"g"}]}]}]}`)
	if status != http.StatusBadRequest || !strings.Contains(text, `the tool \"g\", which is not in tools`) {
		t.Errorf("a reference to no tool: %d %s", status, text)
	}
}

// The requests that users reported are answered as their folders say.
func TestRequestsOfTheField(t *testing.T) {
	request := func(kind string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "data", "field", kind, "request.json"))
		if err != nil {
			t.Skip("the shared requests are not here:", err)
		}
		return string(data)
	}
	e := open(t, trinity.EndpointOptions{})
	if status, text := e.ask("/messages", request("api-prefill")); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if read := (chatty{}).Decode(e.policy.reads[0]); !strings.HasSuffix(read, "assistant:The capital of France is") {
		t.Errorf("the policy read %s", read)
	}
	status, text := e.ask("/messages", request("api-claude-code"))
	if status != http.StatusOK || !strings.Contains(text, "event: message_stop") ||
		len(e.said) != 1 || !strings.Contains(e.said[0], "context_management") {
		t.Errorf("%d %s, said %q", status, text, e.said)
	}
}

// A client that wants no text of the thinking gets its block without it.
func TestThinkingThatIsNotDisplayed(t *testing.T) {
	for display, want := range map[string]string{"": "hm", "summarized": "hm", "omitted": ""} {
		q := &messages{}
		q.Thinking = anthropic.Thinking{Type: adaptive, Display: display}
		blocks := q.blocks(trinity.Message{Reasoning: "hm", Content: "yes"})
		if len(blocks) != 2 || *blocks[0].Thinking != want || blocks[1].Text != "yes" {
			t.Errorf("display %q: %+v", display, blocks)
		}
	}
}
