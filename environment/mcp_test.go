package environment

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// pythonTools is an MCP server in Python without a library, with a tool that adds and one that dies.
const pythonTools = `
import json, os, sys
ready = False
for line in sys.stdin:
    m = json.loads(line)
    ready = ready or m["method"] == "notifications/initialized"
    if "id" not in m: continue
    method, p, error = m["method"], m.get("params", {}), None
    if method == "initialize":
        r = {"protocolVersion": p["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "adder", "version": "1"}}
    elif method == "tools/list" and ready:
        whole = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
        r = {"tools": [{"name": n, "description": "does it", "inputSchema": whole} for n in ("add", "die", "long")]}
    elif method == "tools/call" and p["name"] == "add":
        a = p["arguments"]
        text = str(a["a"] + a["b"]) if "b" in a else "no b"
        r = {"content": [{"type": "text", "text": text}], "isError": "b" not in a}
    elif method == "tools/call" and p["name"] == "long":
        r = {"content": [{"type": "text", "text": "x" * 100}]}
    elif method == "tools/call" and p["name"] == "die":
        print("I am dying", file=sys.stderr); os._exit(3)
    elif method == "ping":
        r = {}
    else:
        error = {"code": -32602, "message": "unknown: " + method}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], **({"error": error} if error else {"result": r})}), flush=True)
`

func toolArgs(t *testing.T) map[string]any {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	return map[string]any{"command": []string{"python3", "-c", pythonTools}}
}

// call is an action that calls a tool.
func call(name, arguments string) trinity.Action {
	return trinity.Action{Calls: []trinity.ToolCall{{ID: "c1", Name: name, Arguments: json.RawMessage(arguments)}}}
}

func TestMCPConforms(t *testing.T) {
	args := toolArgs(t)
	args["reuse"] = true
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: programTask(nil),
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return []trinity.Action{call("add", `{"a": 40, "b": 2}`), call("add", `{"a": 1}`), {Text: "42"}}[i]
		},
	}, open(t, "mcp", args))
}

func playTools(t *testing.T, args map[string]any) (trinity.Environment, trinity.Observation) {
	t.Helper()
	env, err := open(t, "mcp", args).OpenEnvironment(t.Context(), programTask(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close() })
	first, err := env.Reset(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return env, first
}

func TestMCPCallsTools(t *testing.T) {
	args := toolArgs(t)
	args["max_answer"] = 10
	env, first := playTools(t, args)
	const schema = `{"type":"function","function":{"name":"add","description":"does it","parameters":{`
	if got := string(first.Tools); first.Messages[0].Content != "How many?" || !strings.HasPrefix(got, "["+schema) {
		t.Errorf("begins with %q and tools %s", first.Messages, got)
	}
	for _, c := range []struct {
		action trinity.Action
		says   string
		failed bool
	}{
		{call("add", `{"a": 40, "b": 2}`), "42", false},
		{call("add", `{"a": 40}`), "no b", true},
		{call("none", `{}`), "Error: unk …", true},
		{call("long", `{}`), "xxxxxxxxxx …", false},
	} {
		out, err := env.Step(t.Context(), c.action)
		if err != nil {
			t.Fatal(err)
		}
		if m := out.Messages[0]; m.Role != "tool" || m.ToolCallID != "c1" || m.Content != c.says || out.ToolError != c.failed || out.Done {
			t.Errorf("%+v: %+v, want %q", c.action, out, c.says)
		}
	}
	if out := step(t, env, "42"); !out.Done || *out.Reward != 1 {
		t.Errorf("a right answer: %+v", out)
	}
	if _, err := env.Step(t.Context(), call("die", `{}`)); err == nil {
		t.Error("a server that dies is no error")
	}
}

// The official SDK's server, over HTTP with a header.
func TestMCPOverHTTP(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "adder", Version: "1"}, nil)
	type pair struct{ A, B int }
	mcp.AddTool(server, &mcp.Tool{Name: "add"},
		func(_ context.Context, _ *mcp.CallToolRequest, p pair) (*mcp.CallToolResult, map[string]int, error) {
			return nil, map[string]int{"sum": p.A + p.B}, nil
		})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	defer web.Close()
	args := map[string]any{"url": web.URL, "headers": map[string]string{"Authorization": "Bearer x"}}
	env, _ := playTools(t, args)
	out, err := env.Step(t.Context(), call("add", `{"A": 40, "B": 2}`))
	if err != nil || out.Messages[0].Content != `{"sum":42}` {
		t.Errorf("%v, %+v", err, out)
	}
	if out, err = env.Step(t.Context(), call("add", `{"A": "x"}`)); err != nil || !out.ToolError {
		t.Errorf("wrong arguments: %v, %+v", err, out)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]map[string]any{
		"Unauthorized": {"headers": map[string]string{}}, `the server has no "mul"; it has add`: {"tools": []string{"mul"}},
		"refused": {"url": "http://127.0.0.1:1"},
	} {
		changed := map[string]any{"url": args["url"], "headers": args["headers"]}
		for k, v := range change {
			changed[k] = v
		}
		if _, err := open(t, "mcp", changed).OpenEnvironment(t.Context(), programTask(nil)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v, want %q", change, err, name)
		}
	}
}

func TestMCPRefusesArguments(t *testing.T) {
	for _, args := range []map[string]any{
		nil, {"command": []string{"no-such-program"}}, {"url": "localhost"}, {"url": "http://x", "max_answer": 0},
		{"url": "http://x", "command": []string{"true"}},
	} {
		if _, err := registry.Environments.Build("mcp", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	args := toolArgs(t)
	args["command"] = []string{"python3", "-c", "import sys; sys.exit('no server')"}
	if _, err := open(t, "mcp", args).OpenEnvironment(t.Context(), programTask(nil)); err == nil {
		t.Error("a program that is no server opens")
	}
}

// The Python SDK's own server, as a program.
func TestMCPWithPythonSDK(t *testing.T) {
	const server = "from mcp.server.fastmcp import FastMCP\ns = FastMCP('adder')\n" +
		"@s.tool()\ndef add(a: int, b: int) -> int:\n    'Adds.'\n    return a + b\ns.run()\n"
	env, first := playTools(t, map[string]any{"command": []string{agentsPython(t), "-c", server}})
	if !strings.Contains(string(first.Tools), `"name":"add","description":"Adds."`) {
		t.Errorf("tools %s", first.Tools)
	}
	if out, err := env.Step(t.Context(), call("add", `{"a": 40, "b": 2}`)); err != nil || out.Messages[0].Content != "42" || out.ToolError {
		t.Errorf("%v, %+v", err, out)
	}
	if out, err := env.Step(t.Context(), call("add", `{"a": "x"}`)); err != nil || !out.ToolError {
		t.Errorf("wrong arguments: %v, %+v", err, out)
	}
}
