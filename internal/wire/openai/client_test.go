package openai

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAddressJoinsBaseAndEndpoint(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "http://environment/v1/")
	for _, c := range []struct{ base, endpoint, want string }{
		{"http://host/v1/", "/chat/completions", "http://host/v1/chat/completions"},
		{"http://host/v1", "chat/completions", "http://host/v1/chat/completions"},
		{"", "/models", "http://environment/v1/models"},
		{"nowhere", "https://other/api", "https://other/api"},
		{"nowhere", "/models", ""},
	} {
		got, err := (&Client{BaseURL: c.base}).Address(c.endpoint)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), `"nowhere"`) {
			t.Errorf("base %q, endpoint %q: got %q, %v, want %q", c.base, c.endpoint, got, err, c.want)
		}
	}
}

// OpenAI's clients retry status 409, too.
func TestPostRetriesAndSendsTheKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"n":1}` || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("got %s with %v, %v", body, r.Header, err)
		}
		w.Header().Set("Retry-After", "0.001")
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, "done") // the client reports a broken answer
	}))
	defer server.Close()
	got, err := (&Client{Retries: 1}).Post(t.Context(), server.URL, []byte(`{"n":1}`))
	if err != nil || string(got) != "done" || asked != 2 {
		t.Errorf("got %q, %v after %d requests", got, err, asked)
	}
	if _, err := (&Client{}).Post(t.Context(), server.URL+"/", []byte(`{"n":1}`)); err != nil {
		t.Errorf("without retries: %v", err)
	}
}

// Strict servers refuse fields that they do not know, so a client sends only what it sets.
func TestRequestOmitsZeroFields(t *testing.T) {
	got, err := json.Marshal(&Request{Model: "m", Temperature: new(float32(0))})
	if want := `{"model":"m","temperature":0}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestRootOfServers(t *testing.T) {
	for address, want := range map[string]string{
		"http://host:8000": "http://host:8000", "http://host:8000/": "http://host:8000", "https://host/v1": "https://host",
		"http://host/below/v1/": "http://host/below", "http://host/v1?key=x#y": "http://host", "http://[::1]:8000//v1//": "http://[::1]:8000",
		"host:8000": "", "ftp://host": "", "http://": "", "::": "",
	} {
		got, err := Root(address)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", address, got, err, want)
		}
	}
}

// A call without a body is a GET, and a client may have its own statuses that pass.
func TestCallSendsAndDecodes(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "of another server")
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+NoKey {
			t.Errorf("got the key of another server: %v", r.Header)
		}
		if asked++; r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"id":"of `+r.URL.Path+`"}`)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	c := &Client{BaseURL: server.URL + "/v1", Key: NoKey, Retries: 3, MayPass: func(int) bool { return false }}
	var out Model
	if err := c.Call(t.Context(), "models", nil, &out); err != nil || out.ID != "of /v1/models" {
		t.Errorf("got %+v, %v", out, err)
	}
	asked = 0
	if err := c.Call(t.Context(), "models", Request{}, nil); err == nil || asked != 1 {
		t.Errorf("got %v after %d requests, want an error after one", err, asked)
	}
}

// A stream gives its events, and must have a last one.
func TestStreamGivesEvents(t *testing.T) {
	for body, want := range map[string]string{
		"data: 1\n\n: comment\ndata:2\n\ndata: [DONE]\n\ndata: 3\n\n": "12",
		"data: 1\n\n":     "1 the stream ended early: unexpected EOF",
		"data: wrong\n\n": " wrong",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body) // the client reports a broken answer
		}))
		defer server.Close()
		got := ""
		err := (&Client{BaseURL: server.URL}).Stream(t.Context(), "completions", Request{}, func(data []byte) error {
			if string(data) == "wrong" {
				return errors.New(" wrong")
			}
			got += string(data)
			return nil
		})
		if err != nil {
			got += strings.TrimPrefix(err.Error(), "completions:")
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
}
