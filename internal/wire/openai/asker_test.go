package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/trinitytest"
)

const yes = `{"choices": [{"message": {"role": "assistant", "content": "yes", "reasoning_content": "hm"}, "finish_reason": "stop"}]}`

// judge returns an asker of a server that answers with a status and a body.
func judge(t *testing.T, answer http.HandlerFunc) *openai.Asker {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return &openai.Asker{Client: &openai.Client{BaseURL: server.URL, Key: "secret", Timeout: time.Minute}, Name: "judge",
		Sampling: openai.Request{Model: "m"}}
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client reports a broken answer
	}
}

func TestAskerConforms(t *testing.T) {
	trinitytest.Asker(t, judge(t, says(200, yes)))
}

func TestAskerSendsTheQuestion(t *testing.T) {
	a := judge(t, func(w http.ResponseWriter, r *http.Request) {
		var q openai.Request
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		if q.Model != "m" || len(q.Messages) != 1 || *q.Temperature != 0.5 || *q.MaxTokens != 7 || *q.TopP != 0.25 || *q.Seed != 9 ||
			r.URL.Path != "/chat/completions" || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("got %+v of %s with %v", q, r.URL, r.Header)
		}
		says(200, yes)(w, r)
	})
	o := trinity.AskOptions{Temperature: new(float32(0.5)), TopP: new(float32(0.25)), MaxTokens: 7, Seed: new(uint64(9))}
	answer, err := a.Ask(t.Context(), []trinity.Message{{Role: "user", Content: "?"}}, o)
	if err != nil || answer.Message.Content != "yes" || answer.Message.Reasoning != "hm" {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestAskerSaysWhyThereIsNoAnswer(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	gone := judge(t, says(200, yes))
	gone.Client.BaseURL = "http://127.0.0.1:1"
	late := judge(t, func(http.ResponseWriter, *http.Request) { <-hang })
	late.Client.Timeout = 20 * time.Millisecond
	for name, c := range map[string]struct {
		asker *openai.Asker
		want  trinity.AskReason
	}{
		"no JSON":     {judge(t, says(200, "yes")), trinity.AskUnreadable},
		"no choice":   {judge(t, says(200, `{"choices": []}`)), trinity.AskUnreadable},
		"no content":  {judge(t, says(200, `{"choices": [{"message": {"content": null}}]}`)), trinity.AskUnreadable},
		"refusal":     {judge(t, says(200, `{"choices": [{"message": {"content": null, "refusal": "no"}}]}`)), trinity.AskRefused},
		"filter":      {judge(t, says(200, `{"choices": [{"message": {}, "finish_reason": "content_filter"}]}`)), trinity.AskRefused},
		"too long":    {judge(t, says(400, `{"error": {"message": "too long"}}`)), trinity.AskRefused},
		"overloaded":  {judge(t, says(503, "")), trinity.AskUnreachable},
		"no server":   {gone, trinity.AskUnreachable},
		"slow server": {late, trinity.AskTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.asker.Ask(t.Context(), nil, trinity.AskOptions{})
			var failed *trinity.AskError
			if !errors.As(err, &failed) || failed.Reason != c.want || !strings.HasPrefix(err.Error(), "model judge: "+string(c.want)) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// A server that is gone for good ends the run. One answer in between begins the count anew.
func TestAServerThatStaysAwayEndsTheRun(t *testing.T) {
	up := false
	a := judge(t, func(w http.ResponseWriter, r *http.Request) {
		if up {
			says(200, yes)(w, r)
			return
		}
		says(502, "")(w, r)
	})
	var engine *trinity.EngineError
	for i := range 18 {
		up = i == 8
		if _, err := a.Ask(t.Context(), nil, trinity.AskOptions{}); errors.As(err, &engine) {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	_, err := a.Ask(t.Context(), nil, trinity.AskOptions{})
	if !errors.As(err, &engine) || !strings.Contains(err.Error(), "10 questions in a row") {
		t.Errorf("error %v, want one that ends the run", err)
	}
}

// A server that lets nobody in ends the run at once. One that has answered before may refuse single questions with 403 and 404.
func TestAServerThatBarsTheModelEndsTheRun(t *testing.T) {
	for _, c := range []struct {
		code     int
		key      string
		answered bool
		asked    int // until the run ends
		want     string
	}{
		{401, "secret", false, 1, "refuses the key in the environment variable JUDGE_KEY (api_key_env): POST"},
		{401, "secret", true, 1, "refuses the key in the environment variable JUDGE_KEY"},
		{401, openai.NoKey, false, 1, "wants a key, and the environment variable JUDGE_KEY (api_key_env) is not set: POST"},
		{403, "secret", false, 3, "refuses the question or the key in the environment variable JUDGE_KEY (api_key_env): POST"},
		{404, "secret", false, 3, "knows no such model or path (model_name, base_url): POST"},
		{403, "secret", true, 10, "refuses the question or the key in the environment variable JUDGE_KEY (api_key_env): POST"},
	} {
		code := 200
		a := judge(t, func(w http.ResponseWriter, r *http.Request) {
			says(code, map[bool]string{true: yes, false: `{"error": {"message": "none"}}`}[code == 200])(w, r)
		})
		a.KeyEnv, a.Client.Key = "JUDGE_KEY", c.key
		if c.answered {
			if _, err := a.Ask(t.Context(), nil, trinity.AskOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		code = c.code
		var engine *trinity.EngineError
		asked := 0
		var err error
		for asked < 20 && !errors.As(err, &engine) {
			asked++
			_, err = a.Ask(t.Context(), nil, trinity.AskOptions{})
		}
		if asked != c.asked || !strings.Contains(err.Error(), "model judge: 127.0.0.1:") || !strings.Contains(err.Error(), c.want) ||
			!strings.HasSuffix(err.Error(), fmt.Sprintf("%d %s: none", c.code, http.StatusText(c.code))) {
			t.Errorf("%+v: after %d questions %v", c, asked, err)
		}
	}
}

// A filter may refuse the first questions. Each other answer begins the count anew.
func TestAFilterOfTheFirstQuestionsEndsNoRun(t *testing.T) {
	codes := []int{403, 403, 400, 403, 404, 200, 403}
	a := judge(t, func(w http.ResponseWriter, r *http.Request) {
		code := codes[0]
		codes = codes[1:]
		says(code, map[bool]string{true: yes, false: `{"error": {"message": "blocked by content filter"}}`}[code == 200])(w, r)
	})
	for len(codes) > 0 {
		code := codes[0]
		_, err := a.Ask(t.Context(), nil, trinity.AskOptions{})
		var failed *trinity.AskError
		if code == 200 && err != nil || code != 200 && (!errors.As(err, &failed) || failed.Reason != trinity.AskRefused ||
			!strings.Contains(err.Error(), "blocked by content filter")) {
			t.Errorf("status %d: %v", code, err)
		}
	}
}

// A limit of requests, and one of tokens, ends the run before the first question beyond it. Tokens that the server does not
// count cannot be limited.
func TestAskerEndsTheRunAtItsLimits(t *testing.T) {
	const paid = `{"choices": [{"message": {"content": "yes"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}`
	for _, c := range []struct {
		requests, tokens int
		body             string
		asked            int
		want             string
	}{
		{3, 0, paid, 3, "model judge: max_requests 3 is reached"},
		{0, 10, paid, 2, "model judge: max_tokens 10 is reached"},
		{0, 11, paid, 3, "model judge: max_tokens 11 is reached"},
		{0, 10, yes, 1, "max_tokens is set, and the server does not say"},
	} {
		asked := 0
		a := judge(t, func(w http.ResponseWriter, r *http.Request) { asked++; says(200, c.body)(w, r) })
		a.MaxRequests, a.MaxTokens = c.requests, c.tokens
		var err error
		for i := 0; i < 9 && err == nil; i++ {
			_, err = a.Ask(t.Context(), []trinity.Message{{Role: "user", Content: "?"}}, trinity.AskOptions{})
		}
		if engine := (*trinity.EngineError)(nil); !errors.As(err, &engine) || !strings.Contains(err.Error(), c.want) || asked != c.asked {
			t.Errorf("%+v: %v after %d requests", c, err, asked)
		}
	}
}

// The error of a limit waits for the questions in flight, because it ends the run and with it those.
func TestALimitWaitsForAnswersInFlight(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	a := judge(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-answer
		says(200, yes)(w, r)
	})
	a.MaxRequests = 1
	ended := make(chan string, 2)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go func() {
		m, err := a.Ask(ctx, nil, trinity.AskOptions{})
		ended <- fmt.Sprint(m.Message.Content, err)
	}()
	<-arrived
	go func() {
		_, err := a.Ask(ctx, nil, trinity.AskOptions{})
		end() // as the run ends
		ended <- fmt.Sprint(err)
	}()
	time.Sleep(50 * time.Millisecond) // an error that does not wait ends the run by now
	close(answer)
	all := []string{<-ended, <-ended}
	if !slices.Contains(all, "yes<nil>") {
		t.Errorf("the answer in flight is lost: %q", all)
	}
}

// Status 429 says when to ask again.
func TestAskerWaitsAsLongAsTheServerAsks(t *testing.T) {
	asked := 0
	a := judge(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			w.Header().Set("Retry-After", "0.001")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		says(200, yes)(w, r)
	})
	a.Client.Retries, a.Client.Pause, a.MaxRequests = 1, time.Hour, 1
	if answer, err := a.Ask(t.Context(), []trinity.Message{{Role: "user", Content: "?"}}, trinity.AskOptions{}); err != nil || asked != 2 {
		t.Errorf("%+v, %v after %d requests", answer, err, asked)
	}
}

// Calls of tools come with a reply, also without a text. Arguments that are no JSON are no answer.
func TestAskerReadsCalls(t *testing.T) {
	const call = `{"choices": [{"message": {"content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", ` +
		`"arguments": "ARGS"}}]}, "finish_reason": "length"}]}`
	a := judge(t, says(200, strings.Replace(call, "ARGS", `{\"a\": 1}`, 1)))
	m, finish, err := a.Reply(t.Context(), &openai.Request{Model: "m"})
	var calls []trinity.ToolCall
	if err == nil {
		err = json.Unmarshal(m.ToolCalls, &calls)
	}
	if err != nil || finish != "length" || len(calls) != 1 || calls[0].Name != "add" || string(calls[0].Arguments) != `{"a":1}` {
		t.Errorf("%+v, %q, %v", calls, finish, err)
	}
	a = judge(t, says(200, strings.Replace(call, "ARGS", "{", 1)))
	if _, _, err := a.Reply(t.Context(), &openai.Request{}); err == nil || !strings.Contains(err.Error(), "are no JSON") {
		t.Errorf("%v", err)
	}
}
