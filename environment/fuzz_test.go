package environment

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

// Whatever a server or a script answers, an environment gives an observation with a message, or an
// error.

// fuzzed opens an environment. Before its time is over, whatever the server does, it must have
// returned.
func fuzzed(t *testing.T, name string, args map[string]any, play func(context.Context, trinity.Environment)) {
	t.Helper()
	opener, err := registry.Environments.Build(name, args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	env, err := opener.OpenEnvironment(ctx, &trinity.Task{})
	if err != nil {
		return
	}
	defer env.Close()
	play(ctx, env)
}

// check wants a message in an outcome that ends nothing.
func check(t *testing.T, out trinity.Outcome, err error) {
	t.Helper()
	if err == nil && !out.Done && !out.Truncated && len(out.Messages) == 0 {
		t.Error("neither a message, an end nor an error")
	}
}

func FuzzOpenEnvMessages(f *testing.F) {
	f.Add(`{"type": "observation", "data": {"observation": {"x": 1}, "reward": 1e999}}` + "\n" + `{"type": "state", "data": {"s": 2}}`)
	f.Add("{\"type\": \"error\", \"data\": {\"code\": \"CAPACITY_REACHED\"}}\nnull\n[]")
	f.Add(`{"data": {"observation": "text"}}` + "\n{}\n" + `{"type": "error", "data": {"code": "VALIDATION_ERROR", "message": "no"}}`)
	f.Fuzz(func(t *testing.T, lines string) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer conn.CloseNow()
			for line := range strings.Lines(lines) {
				var m any
				if wsjson.Read(r.Context(), conn, &m) != nil || conn.Write(r.Context(), websocket.MessageText, []byte(line)) != nil {
					return
				}
			}
		}))
		defer server.Close()
		args := map[string]any{"url": server.URL, "state_field": "s", "observation_field": "x"}
		fuzzed(t, "openenv", args, func(ctx context.Context, env trinity.Environment) {
			first, err := env.Reset(ctx, 1)
			check(t, trinity.Outcome{Observation: first}, err)
			if err == nil {
				out, err := env.Step(ctx, trinity.Action{Text: "go"})
				check(t, out, err)
			}
		})
	})
}

func FuzzMCPMessages(f *testing.F) {
	const begin = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}` + "\n"
	f.Add(begin+`{"id":2,"result":{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}}`+"\n"+
		`{"id":3,"result":{"content":[{"type":"text","text":"42"}]}}`, false)
	f.Add(begin+`{"id":2,"result":{"tools":[{"name":"f"},{"name":"f","inputSchema":[]}]}}`+"\n"+
		`{"id":3,"error":{"code":-1,"message":"no"}}`, true)
	f.Add(begin+`{"id":2,"result":{"tools":null,"nextCursor":"x"}}`+"\n"+`{"id":3,"result":null}`, true)
	f.Fuzz(func(t *testing.T, lines string, events bool) {
		answers := strings.Split(lines, "\n")
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct{ ID *int }
			if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil || *m.ID > len(answers) {
				return
			}
			kind, answer := "application/json", answers[*m.ID-1]
			if events {
				kind, answer = "text/event-stream", "data: "+answer+"\n\n"
			}
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(answer))
		}))
		defer server.Close()
		fuzzed(t, "mcp", map[string]any{"url": server.URL}, func(ctx context.Context, env trinity.Environment) {
			first, err := env.Reset(ctx, 1)
			if err == nil && first.Tools != nil && !json.Valid(first.Tools) {
				t.Errorf("tools %q", first.Tools)
			}
			if err == nil {
				out, err := env.Step(ctx, call("f", `{"a":1}`))
				check(t, out, err)
			}
		})
	})
}

func FuzzGymnasiumAnswers(f *testing.F) {
	f.Add(`{"space": "Discrete(2)", "example": 1, "first": 0, "count": 2}`, `{"observation": [1, 2], "reward": 1, "text": null}`)
	f.Add(`{"error": "no such id"}`, `{"observation": "s", "success": 1}`)
	f.Fuzz(func(t *testing.T, space, state string) {
		e := &gymEpisode{args: &pythonGym{tabular: tabular{Ask: "{observation}{actions}{action}", MaxSteps: 3}}}
		if bridge.Decode([]byte(space), &e.space) != nil {
			return
		}
		var s stateReply
		if bridge.Decode([]byte(state), &s) == nil {
			e.observe(&s)
			if o := e.says(e.args.Ask); len(o.Messages) != 1 || o.State != e.observation {
				t.Errorf("%+v", o)
			}
			e.action("1")
		}
	})
}

func FuzzSearchDocuments(f *testing.F) {
	f.Add(threeDocuments, "Rome")
	f.Add(`{"id": null, "docid": [1], "title": "É"}`+"\n"+`{"url": "x", "content": ""}`, "é x")
	f.Fuzz(func(t *testing.T, lines, query string) {
		c, err := openCorpus(documents(t, lines))
		if err != nil {
			return
		}
		found, err := c.find(t.Context(), query, 3)
		if err != nil || len(found) > 3 {
			t.Errorf("%d documents, %v", len(found), err)
		}
		for _, d := range found {
			if again, err := c.document(t.Context(), d.ID); err != nil || again != d {
				t.Errorf("document %q: %+v, %v", d.ID, again, err)
			}
		}
	})
}

func FuzzShell(f *testing.F) {
	f.Add(`echo "a b" > work/c.txt`, true)
	f.Add("mv ~/../x '.'", false)
	f.Fuzz(func(t *testing.T, line string, windows bool) {
		s := &shell{windows: windows, home: "/home/ann", here: "/home/ann", files: map[string]string{"/home/ann/a": "A"},
			folders: map[string]bool{"/": true, "/home": true, "/home/ann": true}}
		if _, err := s.run(line); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		if !s.folders[s.here] {
			t.Errorf("it is in %q, which is no folder", s.here)
		}
		for p := range s.files {
			if s.folders[p] {
				t.Errorf("%q is a file and a folder", p)
			}
		}
	})
}
