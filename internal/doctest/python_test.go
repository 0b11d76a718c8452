package doctest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program that takes the place of Trinity-RFT's adapters calls the user's functions and posts
// their reward. AgentScope is replaced by its one name that the program uses.
func TestAgentOfThePageRuns(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	page, err := os.ReadFile("../../docs/guide/from-trinity-rft.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, program := t.TempDir(), ""
	for _, b := range blocks(string(page)) {
		if b.lang == "python" {
			program = strings.Join(b.lines, "\n")
		}
	}
	for name, text := range map[string]string{
		"rollout.py":             program,
		"agentscope/model.py":    "class OpenAIChatModel:\n    def __init__(self, model_name, stream=True): self.says = (model_name, stream)\n",
		"agentscope/__init__.py": "",
		"my_agent.py": "from types import SimpleNamespace\n" +
			"async def workflow_func(row, model, others): return SimpleNamespace(response=[row['q'], *model.says])\n" +
			"async def judge_func(row, response, others): return SimpleNamespace(reward=float(response == ['2+3?', 'policy', False]))\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	posted := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posted += r.Method + " " + r.URL.Path + " " + string(body)
	}))
	defer server.Close()
	run := exec.CommandContext(t.Context(), python, "rollout.py")
	run.Env = append(os.Environ(), "OPENAI_BASE_URL="+server.URL+"/v1")
	run.Dir, run.Stdin = dir, strings.NewReader(`{"task": "taskset/1", "row": {"q": "2+3?"}}`+"\n")
	if out, err := run.CombinedOutput(); err != nil || posted != `POST /v1/reward {"value": 1.0}` {
		t.Errorf("the program posted %q and printed %q, %v", posted, out, err)
	}
}
