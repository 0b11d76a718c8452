package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answering serves the statuses in turn, the last one for ever, and counts the requests.
func answering(t *testing.T, header http.Header, codes ...int) (url string, asked *int) {
	t.Helper()
	asked = new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := codes[min(*asked, len(codes)-1)]
		*asked++
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(code)
		if code == http.StatusOK {
			_, _ = w.Write(body) // the client complains
			return
		}
		fmt.Fprintf(w, `{"error": {"message": "no\n %d"}}`, code)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestClientRetriesWhatMayPass(t *testing.T) {
	for _, c := range []struct {
		codes []int
		asked int
		want  string // "" succeeds
	}{
		{[]int{200}, 1, ""},
		{[]int{429, 503, 200}, 3, ""},
		{[]int{500}, 3, "attempt 3: 500 Internal Server Error: no 500"},
		{[]int{503, 404}, 2, "attempt 2: 404 Not Found: no 404"},
	} {
		url, asked := answering(t, nil, c.codes...)
		client := Client{Retries: 2, Pause: time.Millisecond}
		var out map[string]int
		err := client.JSON(t.Context(), Request{Method: http.MethodPost, URL: url + "/x?key=secret"}, map[string]int{"a": 1}, &out)
		if c.want == "" && (err != nil || out["a"] != 1) || c.want != "" && (err == nil || err.Error() != "POST "+url+"/x, "+c.want) ||
			*asked != c.asked {
			t.Errorf("%v: %v after %d requests, answer %v", c.codes, err, *asked, out)
		}
	}
}

func TestClientWaitsAsLongAsTheServerAsks(t *testing.T) {
	url, asked := answering(t, http.Header{"Retry-After": {"0.001"}}, 503, 503, 200)
	client := Client{Retries: 2, Pause: time.Hour, MaxPause: time.Hour}
	if _, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: url}); err != nil || *asked != 3 {
		t.Errorf("%v after %d requests", err, *asked)
	}
	for text, want := range map[string]time.Duration{"": 0, "soon": 0, "-1": 0, "1.5": 1500 * time.Millisecond, "1e9": maxRetryAfter,
		"Mon, 02 Jan 2006 15:04:05 GMT": 0} {
		if got := retryAfter(http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestClientBoundsTimeAndSize(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
		_, _ = w.Write(make([]byte, 100)) // the client complains
	}))
	defer s.Close()
	defer close(release)
	client := Client{Timeout: 20 * time.Millisecond, MaxBody: 99}
	if _, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: s.URL + "/slow"}); !IsTemporary(err) ||
		!strings.HasSuffix(err.Error(), "no answer within timeout = 0.02 s") {
		t.Errorf("slow: %v", err)
	}
	client.Timeout = time.Minute
	if _, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: s.URL}); err == nil || IsTemporary(err) ||
		!strings.Contains(err.Error(), "answered more than") {
		t.Errorf("long: %v", err)
	}
	client.MaxBody = 100
	if _, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: s.URL}); err != nil {
		t.Errorf("just short enough: %v", err)
	}
}

func TestClientStopsWithItsContext(t *testing.T) {
	url, _ := answering(t, nil, 503)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the run was stopped")
	time.AfterFunc(20*time.Millisecond, func() { cancel(stopped) })
	client := Client{Retries: 1, Pause: time.Hour, MaxPause: time.Hour}
	if _, err := client.Do(ctx, Request{Method: http.MethodGet, URL: url}); !errors.Is(err, stopped) || IsTemporary(err) {
		t.Errorf("got %v", err)
	}
}

// A server that asks for more patience than the context has gets no other request, and the error
// says what it answered.
func TestClientDoesNotWaitBeyondItsDeadline(t *testing.T) {
	url, asked := answering(t, http.Header{"Retry-After": {"120"}}, 429)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	client := Client{Retries: 1}
	_, err := client.Do(ctx, Request{Method: http.MethodGet, URL: url})
	if err == nil || !strings.HasSuffix(err.Error(), "no time is left for the next attempt in 2m0s: 429 Too Many Requests: no 429") ||
		*asked != 1 {
		t.Errorf("%v after %d requests", err, *asked)
	}
}

func TestErrorsDoNotShowSecretsOfTheURL(t *testing.T) {
	url, _ := answering(t, nil, 404)
	var client Client
	_, err := client.Do(t.Context(),
		Request{Method: http.MethodGet, URL: strings.Replace(url, "//", "//ann:s3cret@", 1) + "/x?key=s3cret#s3cret"})
	if want := "GET " + url + "/x: 404 Not Found: no 404"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestErrorsDoNotShowTheURL(t *testing.T) {
	client := Client{Name: "slack"}
	_, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: "http://127.0.0.1:1/secret"})
	if err == nil || !IsTemporary(err) || !strings.HasPrefix(err.Error(), "slack: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestMessageOfAnErrorBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"error": {"message": "a"}}`: "a", `{"error": "b"}`: "b", `{"message": "c"}`: "c", `{"detail": "d"}`: "d",
		`{"detail": [{"msg": "e"}]}`: `{"detail": [{"msg": "e"}]}`, "no\n json": "no json", "": "", `{"x": 1}`: `{"x": 1}`,
	} {
		if got := message([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A Retry-After of 0 asks for no pause, and gets the usual one.
func TestClientPausesBeforeEachRetry(t *testing.T) {
	for after, want := range map[string]time.Duration{"": 3 * time.Second, "0": 3 * time.Second, "5": 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			refuse := transport(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {after}}, Body: http.NoBody, Request: r}, nil
			})
			client := Client{HTTP: &http.Client{Transport: refuse}, Retries: 2, Pause: time.Second}
			begin := time.Now()
			_, err := client.Do(t.Context(), Request{Method: http.MethodGet, URL: "http://host"})
			if took := time.Since(begin); !IsTemporary(err) || took != want {
				t.Errorf("Retry-After %q: %v after %v, want a temporary error after %v", after, err, took, want)
			}
		})
	}
}

// Open reads the body of a refusal for its message, but does not wait for it without end.
func TestOpenDoesNotWaitForTheBodyOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, write := io.Pipe() // never gets its end
		go func() { _, _ = io.WriteString(write, "too busy") }()
		stall := transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Status: "503 busy", Body: body, Request: r}, nil
		})
		client := Client{HTTP: &http.Client{Transport: stall}}
		_, err := client.Open(t.Context(), Request{Method: http.MethodGet, URL: "http://host"})
		if err == nil || err.Error() != "GET http://host: 503 busy: too busy" {
			t.Errorf("got %v", err)
		}
	})
}
