package environment

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// openEnvServer is a server whose environment counts: a session at a time, as OpenEnv's default is,
// or more.
type openEnvServer struct {
	mu             sync.Mutex
	sessions, most int
	refused        int // sessions that were refused
	closed         int // sessions that ended with a message
}

func (s *openEnvServer) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == s.most {
		s.refused++
		return false
	}
	s.sessions++
	return true
}

// ServeHTTP implements http.Handler.
func (s *openEnvServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/ws" {
		http.NotFound(w, r)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	fail := func(code string) {
		_ = wsjson.Write(r.Context(), conn, map[string]any{"type": "error", "data": map[string]any{"message": "told so", "code": code}})
	}
	if !s.enter() {
		fail("CAPACITY_REACHED")
		conn.Close(websocket.StatusNormalClosure, "")
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions--
	}()
	count, seed := 0, 0.0
	for {
		var m struct {
			Type string
			Data map[string]any
		}
		if wsjson.Read(r.Context(), conn, &m) != nil {
			return
		}
		switch m.Type {
		case "reset":
			count = 0
			seed, _ = m.Data["seed"].(float64)
			if level, ok := m.Data["level"].(float64); ok {
				seed = level
			}
		case "step":
			text, ok := m.Data["message"].(string)
			if !ok {
				fail("VALIDATION_ERROR")
				continue
			}
			if strings.HasSuffix(text, "_ERROR") {
				fail(text)
				continue
			}
			count++
		case "state":
			_ = wsjson.Write(r.Context(), conn, map[string]any{"type": "state", "data": map[string]any{"step_count": count}})
			continue
		default:
			s.mu.Lock()
			s.closed++
			s.mu.Unlock()
			return
		}
		data := map[string]any{"observation": map[string]any{"count": count, "seed": seed, "metadata": map[string]any{}}, "done": count == 3}
		if count > 0 {
			data["reward"] = float64(count)
		}
		_ = wsjson.Write(r.Context(), conn, map[string]any{"type": "observation", "data": data})
	}
}

func serveOpenEnv(t *testing.T, most int) (*openEnvServer, map[string]any) {
	s := &openEnvServer{most: most}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, map[string]any{"url": server.URL}
}

func TestOpenEnvConforms(t *testing.T) {
	_, args := serveOpenEnv(t, 4)
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{},
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return trinity.Action{Text: []string{"go", `{"x": 1}`, "```json\n{\"message\": \"go\"}\n```", "go"}[i]}
		},
	}, open(t, "openenv", args))
}

func TestOpenEnvSpeaks(t *testing.T) {
	s, args := serveOpenEnv(t, 1)
	args["unread_reward"] = -1
	env, first := begin(t, "openenv", args, map[string]any{"reset": map[string]any{"level": 7}})
	if got := first.Messages[0].Content; got != `{"count":0,"seed":7}` {
		t.Errorf("asks %q", got)
	}
	out := step(t, env, `{"x": 1}`)
	if *out.Reward != -1 || out.Messages[0].Content != "The action is not valid: told so" || out.Metrics["valid"] != 0 {
		t.Errorf("an invalid action: %+v", out)
	}
	if _, out = episodeOf(t, env, "a", "b", "c"); !out.Done || *out.Reward != 3 || out.Metrics["valid"] != 0.75 {
		t.Errorf("at the end: %+v", out)
	}
	env.Close()

	args["observation_field"], args["state_field"] = "count", "step_count"
	env, first = begin(t, "openenv", args, map[string]any{"reset": map[string]any{"level": 7}})
	if out := step(t, env, "a"); first.Messages[0].Content != "0" || out.Messages[0].Content != "1" || out.State != "1" {
		t.Errorf("fields: %+v, %+v", first, out)
	}
	for _, code := range []string{"EXECUTION_ERROR", "SESSION_ERROR"} {
		if _, err := env.Step(t.Context(), trinity.Action{Text: code}); err == nil || !strings.Contains(err.Error(), code+": told so") {
			t.Errorf("%s: %v", code, err)
		}
	}
	env.Close()
	for _, url := range []string{"", "localhost:8000", "ftp://x"} {
		if _, err := registry.Environments.Build("openenv", map[string]any{"url": url}); err == nil {
			t.Errorf("url %q is accepted", url)
		}
	}
	env, err := open(t, "openenv", map[string]any{"url": "http://127.0.0.1:1"}).OpenEnvironment(t.Context(), &trinity.Task{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Reset(t.Context(), 1); err == nil {
		t.Error("a server that is not there resets")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions > s.most {
		t.Errorf("%d sessions", s.sessions)
	}
}

// An episode waits for a session of the server, and its wait ends with its context.
func TestOpenEnvWaitsForASession(t *testing.T) {
	s, args := serveOpenEnv(t, 1)
	first, _ := begin(t, "openenv", args, nil)
	second, err := open(t, "openenv", args).OpenEnvironment(t.Context(), &trinity.Task{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	failed := make(chan error, 1)
	waitsIn := func(ctx context.Context) {
		s.mu.Lock()
		before := s.refused
		s.mu.Unlock()
		go func() {
			_, err := second.Reset(ctx, 1)
			failed <- err
		}()
		for refused := before; refused < before+2; {
			select {
			case err := <-failed:
				t.Fatal("it does not wait:", err)
			case <-time.After(time.Millisecond):
			}
			s.mu.Lock()
			refused = s.refused
			s.mu.Unlock()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	waitsIn(ctx)
	cancel()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "busy") && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("after the end of its context: %v", err)
	}
	waitsIn(t.Context())
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err != nil {
		t.Errorf("after the other episode: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == 0 {
		t.Error("the server was not told that a session ended")
	}
}

// What a broken server says is an error of the environment.
func TestOpenEnvReadsGarbage(t *testing.T) {
	for _, answer := range []string{`{"type": "error", "data": 3}`, `{"type": "observation", "data": []}`, `not JSON`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if conn, err := websocket.Accept(w, r, nil); err == nil {
				defer conn.CloseNow()
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(answer))
				for err == nil {
					_, _, err = conn.Read(r.Context())
				}
			}
		}))
		env, err := open(t, "openenv", map[string]any{"url": server.URL}).OpenEnvironment(t.Context(), &trinity.Task{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.Reset(t.Context(), 1); err == nil {
			t.Errorf("%s is accepted", answer)
		}
		env.Close()
		server.Close()
	}
}

// OpenEnv's own server, one session at a time.
func TestOpenEnvWithItsServer(t *testing.T) {
	python := agentsPython(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, python, "testdata/openenv_server.py", port)
	var said strings.Builder
	server.Stderr = &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	for healthy := false; !healthy && t.Context().Err() == nil; {
		if r, err := http.Get("http://" + address + "/health"); err == nil {
			healthy = r.StatusCode == http.StatusOK
			r.Body.Close()
		}
	}
	args := map[string]any{"url": "http://" + address, "observation_field": "text", "state_field": "step_count"}
	env, first := begin(t, "openenv", args, nil)
	if first.Messages[0].Content != "seed 1" || first.State != "0" {
		t.Errorf("begins with %+v", first)
	}
	if out := step(t, env, `{"word": "x"}`); out.Metrics["valid"] != 0 || out.State != "0" {
		t.Errorf("an invalid action: %+v", out)
	}
	second, err := open(t, "openenv", args).OpenEnvironment(t.Context(), &trinity.Task{})
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan error)
	go func() {
		_, err := second.Reset(t.Context(), 1)
		began <- err
	}()
	if heard, out := episodeOf(t, env, "one", "two"); heard[0] != "heard one" || !out.Done || *out.Reward != 1 || out.State != "2" {
		t.Errorf("hears %q, %+v", heard, out)
	}
	env.Close()
	if err := <-began; err != nil {
		t.Errorf("after the end of the other session: %v", err)
	}
	if _, err := second.Step(t.Context(), trinity.Action{Text: "raise"}); err == nil || !strings.Contains(err.Error(), "EXECUTION_ERROR") {
		t.Errorf("an environment that raises: %v", err)
	}
	second.Close()
}
