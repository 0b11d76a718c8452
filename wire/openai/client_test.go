package openai

import (
	"encoding/json"
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
