package workflow

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// corpusFile returns a file with documents.
func corpusFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "corpus.jsonl")
	if err := os.WriteFile(path, []byte(`{"id": "a", "text": "The sum of two and three is 5."}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// searchCalls reads "search(words)" and "get_document(id)" as calls.
type searchCalls struct{ calling }

func (c searchCalls) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m, calls, err := c.calling.Read(tokens, tools)
	for i := range calls {
		key := map[string]string{"search": "query", "get_document": "id"}[calls[i].Name]
		calls[i].Arguments = json.RawMessage(strings.Replace(string(calls[i].Arguments), "expression", key, 1))
	}
	return m, calls, err
}

func TestSearchingIsJudged(t *testing.T) {
	for _, c := range []struct {
		name, verdict    string
		replies          []string
		value            float64
		calls, documents float64
		asked            int
		cut              trinity.Truncation
	}{
		{"bcp_simple_react_workflow", "true", []string{`search(sum)`, "Exact Answer: 5"}, 1, 1, 0, 1, trinity.NotTruncated},
		{"bcp_simple_react_workflow", "It is false.", []string{`search(sum)`, `search(two)`, "6"}, 0, 2, 0, 1, trinity.NotTruncated},
		{"bcp_simple_react_workflow", "true", []string{" "}, 0, 0, 0, 0, trinity.NotTruncated},
		{"bcp_simple_react_workflow", "true", []string{"search(sum)"}, 0, 3, 0, 0, trinity.TurnsTruncated},
		{"agentscope_v1_react_search_workflow", "true", []string{"get_document(a)", "5"}, 1, 0, 1, 1, trinity.NotTruncated},
	} {
		key := map[string]string{"bcp_simple_react_workflow": "max_iterations"}[c.name]
		if key == "" {
			key = "max_turns"
		}
		policy := model(nil)
		policy.Sampler, policy.Renderer = &script{replies: c.replies}, searchCalls{}
		judge := &court{answer: c.verdict}
		r := rollout(task(), policy, &echo{})
		r.Host = judge
		exps, err := build(t, c.name, map[string]any{key: 3, "search": map[string]any{"corpus": corpusFile(t)}}).Run(t.Context(), r)
		if err != nil || len(exps) != 1 {
			t.Fatalf("%v: %d experiences, %v", c.replies, len(exps), err)
		}
		e := exps[0]
		m := e.Metrics
		if !e.Reward.Valid || e.Reward.Value != c.value || e.Truncated != c.cut || m["search_calls"] != c.calls ||
			m["get_document_calls"] != c.documents || m["total_tool_calls"] != c.calls+c.documents {
			t.Errorf("%v: reward %+v, metrics %v, %s", c.replies, e.Reward, e.Metrics, e.Truncated)
		}
		if len(judge.questions) != c.asked {
			t.Errorf("%v: the judge was asked %q", c.replies, judge.questions)
		}
		text := plain{}.Decode(e.Tokens)
		if found := c.calls+c.documents > 0; !strings.Contains(text, "Exact Answer") || strings.Contains(text, "is 5.") != found {
			t.Errorf("%v: the policy read %q", c.replies, text)
		}
	}
}

// An unreadable verdict is no reward.
func TestSearchingWithoutAVerdictFails(t *testing.T) {
	r := rollout(task(), model(&parrot{says: "5"}), nil)
	r.Host = &court{answer: "perhaps"}
	w := build(t, "bcp_simple_react_workflow", map[string]any{"search": map[string]any{"corpus": corpusFile(t)}})
	if exps, err := w.Run(t.Context(), r); err == nil || !strings.Contains(err.Error(), "neither true nor false") {
		t.Errorf("got %v, %v", exps, err)
	}
}

// SEARXNG_URL is the service of files that name none.
func TestWebSearchFindsItsService(t *testing.T) {
	const name = "agentscope_v1_react_search_workflow"
	for name, want := range map[string]string{name: "SEARXNG_URL", "bcp_simple_react_workflow": "corpus"} { // as in files of Trinity-RFT
		w := build(t, name, nil)
		checked := trinity.RequirementsOf(w).CheckTask(task())
		_, run := w.Run(t.Context(), rollout(task(), model(&parrot{says: "5"}), nil))
		for _, err := range []error{checked, run} {
			if err == nil || !strings.Contains(err.Error(), "workflow_args.search: name") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s without a service: %v", name, err)
			}
		}
	}
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		io.WriteString(w, `{"results": [{"url": "http://x/1", "title": "Sums", "content": "2+3 is 5."}]}`)
	}))
	defer server.Close()
	t.Setenv("SEARXNG_URL", server.URL)
	m := model(nil)
	m.Sampler, m.Renderer = &script{replies: []string{"search(2 and 3)", "5"}}, searchCalls{}
	r := rollout(task(), m, nil)
	r.Host = &court{answer: "true"}
	exps, err := build(t, name, nil).Run(t.Context(), r)
	if err != nil || exps[0].Reward.Value != 1 || asked != "GET /search?format=json&q=2+and+3" {
		t.Errorf("asked %q, got %+v, %v", asked, exps, err)
	}
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{name, map[string]any{"max_turns": 0}, "max_turns"},
		{name, map[string]any{"tool_timeout": 0}, "tool_timeout"},
		{"bcp_simple_react_workflow", map[string]any{"max_iterations": 0}, "max_iterations"},
		{"bcp_simple_react_workflow", map[string]any{"searcher_type": "faiss"}, "search.url"},
		{"bcp_simple_react_workflow", map[string]any{"search": map[string]any{"url": "x"}}, "search: "},
		{name, map[string]any{"search_client_type": "bing"}, "want searxng or tavily"},
	} {
		if _, err := registry.Workflows.Build(c.name, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %s", c.name, c.args, err, c.want)
		}
	}
}
