package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkServer serves tools with the official SDK.
func sdkServer(t *testing.T, o *sdk.StreamableHTTPOptions) (url string, ended *atomic.Int64) {
	server := sdk.NewServer(&sdk.Implementation{Name: "adder", Version: "1"}, &sdk.ServerOptions{PageSize: 1})
	type pair struct{ A, B int }
	for _, name := range []string{"add", "more"} {
		sdk.AddTool(server, &sdk.Tool{Name: name, Description: "adds"},
			func(ctx context.Context, r *sdk.CallToolRequest, p pair) (*sdk.CallToolResult, map[string]int, error) {
				if p.A < 0 {
					return nil, nil, errors.New("a is negative")
				}
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: "x", Progress: 0.5}) // before the answer
				return nil, map[string]int{"sum": p.A + p.B}, nil
			})
	}
	ended = &atomic.Int64{}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, o)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			ended.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL, ended
}

func TestClientSpeaksWithTheOfficialSDK(t *testing.T) {
	for name, o := range map[string]*sdk.StreamableHTTPOptions{
		"events": {}, "JSON": {JSONResponse: true}, "without sessions": {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			url, ended := sdkServer(t, o)
			web := &HTTP{URL: url}
			c, err := Connect(t.Context(), web)
			if err != nil {
				t.Fatal(err)
			}
			tools, err := c.Tools(t.Context()) // on two pages
			if err != nil || len(tools) != 2 || tools[0].Name != "add" || tools[1].Name != "more" || tools[0].Description != "adds" ||
				!strings.Contains(string(tools[0].InputSchema), `"A"`) {
				t.Errorf("%v, %+v", err, tools)
			}
			r, err := c.Call(t.Context(), "add", []byte(`{"A": 40, "B": 2}`))
			if err != nil || r.IsError || string(r.StructuredContent) != `{"sum":42}` || r.Content[0] != (Content{"text", `{"sum":42}`}) {
				t.Errorf("%v, %+v", err, r)
			}
			if r, err := c.Call(t.Context(), "add", []byte(`{"A": -1, "B": 2}`)); err != nil || !r.IsError || r.Content[0].Text != "a is negative" {
				t.Errorf("a tool that fails: %v, %+v", err, r)
			}
			if _, err := c.Call(t.Context(), "none", nil); !errors.As(err, new(*Error)) {
				t.Errorf("an unknown tool: %v", err)
			}
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			if err := web.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if want := int64(1); !o.Stateless && ended.Load() != want {
				t.Errorf("%d sessions were ended, want %d", ended.Load(), want)
			}
		})
	}
}

// Messages about other requests come before the answer.
func TestClientWaitsForItsAnswer(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"id\":99,\"result\":{}}\n\ndata: {\"id\":1,\"result\":{\"protocolVersion\":\"1\"}}\n\n"))
	}))
	defer web.Close()
	if _, err := Connect(t.Context(), &HTTP{URL: web.URL}); err != nil {
		t.Error(err)
	}
}

func TestClientReadsGarbage(t *testing.T) {
	for _, c := range []struct {
		kind, body string
		status     int
	}{
		{"application/json", `{"jsonrpc":"2.0","id":1,"result":{}}`, 200}, {"application/json", `{"jsonrpc":"2.0","id":9,"result":{}}`, 200},
		{"application/json", `nothing`, 200}, {"text/event-stream", "data: {\"id\":9}\n\ndata:", 200}, {"text/plain", "go away", 500},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		if _, err := Connect(t.Context(), &HTTP{URL: web.URL}); err == nil {
			t.Errorf("%+v is accepted", c)
		}
		web.Close()
	}
}
