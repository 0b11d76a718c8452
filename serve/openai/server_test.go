package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// letters is a model whose tokens are bytes. It answers every prompt with "a£c!".
type letters struct{ asked trinity.SamplingParams }

const reply = "a£c!"

func (l *letters) Sample(ctx context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	l.asked = p
	if p.Seed == 13 {
		return nil, errors.New("the engine is broken")
	}
	if p.Seed == 14 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	var out []trinity.Completion
	for i := range p.N {
		var c trinity.Completion
		for _, b := range []byte(reply + "\x00") {
			c.Tokens, c.Logprobs = append(c.Tokens, int32(b)), append(c.Logprobs, -0.5)
			if p.OnToken != nil {
				p.OnToken(i, int32(b))
			}
		}
		c.FinishReason, c.Versions = "stop", [2]int64{3, 4}
		out = append(out, c)
	}
	return out, nil
}

type bytesRenderer struct{}

func (bytesRenderer) Render(m []trinity.Message, _ json.RawMessage, _ bool) ([]int32, error) {
	if m[0].Role == "nobody" {
		return nil, errors.New("the template knows no role nobody")
	}
	return bytesRenderer{}.Encode(m[0].Content), nil
}
func (bytesRenderer) RenderTraining([]trinity.Message, json.RawMessage) ([]int32, []bool, error) {
	return nil, nil, nil
}
func (bytesRenderer) Encode(text string) []int32 {
	var out []int32
	for _, b := range []byte(text) {
		out = append(out, int32(b))
	}
	return out
}
func (bytesRenderer) Decode(tokens []int32) string {
	var out []byte
	for _, t := range tokens {
		if t != 0 {
			out = append(out, byte(t))
		}
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}
func (bytesRenderer) StopTokens() []int32 { return []int32{0} }

func start(t *testing.T) (*httptest.Server, *letters) {
	t.Helper()
	model := &letters{}
	s := &Server{
		Name: "m", Sampler: model, Renderer: bytesRenderer{}, Params: trinity.SamplingParams{Temperature: 0.7, TopP: 1,
			MaxTokens: 5}, MaxModelLen: 20, VocabSize: 256,
		Timeout: 50 * time.Millisecond, Token: "t",
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return web, model
}

func ask(t *testing.T, web *httptest.Server, path, token, body string) (status int, text string) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

const (
	chatPath  = "/v1/chat/completions"
	plainPath = "/v1/completions"
)

func TestServerReplies(t *testing.T) {
	web, model := start(t)
	for _, c := range []struct{ path, body, has string }{
		{"/v1/models", "", `"id":"m"`},
		{chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, `"message":{"content":"a£c!","role":"assistant"}`},
		{chatPath, `{"messages":[{"role":"user","content":"hi"}],"n":2}`, `"usage":{"completion_tokens":12,"prompt_tokens":2,"total_tokens":14}`},
		{chatPath, `{"messages":[{"role":"user","content":"hi"}],"logprobs":true}`, `{"content":[{"logprob":-0.5,"token":"a","top_logprobs":[]}`},
		{chatPath, `{"messages":[{"role":"user","content":"hi"}],"stop":["x","c"]}`, `"content":"a£"`},
		{chatPath, `{"messages":[{"role":"user","content":"hi"}],"stop":null}`, `"finish_reason":"stop"`},
		{plainPath, `{"prompt":"hi"}`, `"text":"a£c!"`},
		{plainPath, `{"prompt":[104,105],"logprobs":1,"return_token_ids":true}`, `"token_logprobs":[-0.5,-0.5,-0.5,-0.5,-0.5,-0.5]`},
		{plainPath, `{"prompt":"hi"}`, `"versions":[3,4]`},
	} {
		if status, text := ask(t, web, c.path, "t", c.body); status != http.StatusOK || !strings.Contains(text, c.has) {
			t.Errorf("%s %s: %d %s\nwant %s", c.path, c.body, status, text, c.has)
		}
	}
	ask(t, web, plainPath, "t",
		`{"prompt":"hi","temperature":0,"top_p":0.5,"top_k":3,"max_tokens":18,"seed":-1,"stop_token_ids":[7],"ignore_eos":true}`)
	if p := model.asked; p.Temperature != 0 || p.TopP != 0.5 || p.TopK != 3 || p.MaxTokens != 18 || p.Seed != 1<<64-1 ||
		!slices.Equal(p.StopTokens, []int32{7, 0}) || !p.IgnoreEOS {
		t.Errorf("the sampler was asked for %+v", p)
	}
	ask(t, web, plainPath, "t", `{"prompt":"hi"}`)
	if p := model.asked; p.Temperature != 0.7 || p.MaxTokens != 5 || p.N != 1 {
		t.Errorf("without parameters the sampler was asked for %+v", p)
	}
}

func TestServerRefusesBadRequests(t *testing.T) {
	web, _ := start(t)
	for _, c := range []struct {
		path, token, body string
		status            int
		param             string
	}{
		{chatPath, "wrong", `{}`, 401, "null"},
		{"/v1/models", "", "", 401, "null"},
		{chatPath, "t", `{`, 400, "null"},
		{chatPath, "t", `{}`, 400, `"messages"`},
		{chatPath, "t", `{"messages":[{"role":"nobody"}]}`, 400, `"messages"`},
		{chatPath, "t", `{"model":"gpt","messages":[]}`, 404, `"model"`},
		{plainPath, "t", `{"prompt":{}}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":""}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":"x","n":0}`, 400, `"n"`},
		{plainPath, "t", `{"prompt":"x","n":1000}`, 400, `"n"`},
		{plainPath, "t", `{"prompt":"x","max_tokens":0}`, 400, `"max_tokens"`},
		{plainPath, "t", `{"prompt":"x","max_completion_tokens":0}`, 400, `"max_completion_tokens"`},
		{plainPath, "t", `{"prompt":"hi","max_tokens":19}`, 400, `"max_tokens"`},
		{plainPath, "t", `{"prompt":"x","temperature":-1}`, 400, `"temperature"`},
		{plainPath, "t", `{"prompt":"x","top_p":2}`, 400, `"top_p"`},
		{plainPath, "t", `{"prompt":"x","top_p":0}`, 400, `"top_p"`},
		{plainPath, "t", `{"prompt":"x","top_k":-5}`, 400, `"top_k"`},
		{plainPath, "t", `{"prompt":[-1]}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":[256]}`, 400, `"prompt"`},
		{"/v1/embeddings", "t", `{}`, 404, `null`},
		{plainPath, "t", `{"prompt":"x","stop":[""]}`, 400, `"stop"`},
		{plainPath, "t", `{"prompt":"x","stop":1}`, 400, `"stop"`},
		{plainPath, "t", `{"prompt":"x","logprobs":5}`, 400, `"logprobs"`},
		{plainPath, "t", `{"prompt":"x","logprobs":1,"stream":true}`, 400, `"logprobs"`},
		{plainPath, "t", `{"prompt":"x","echo":true}`, 400, `"echo"`},
		{plainPath, "t", `{"prompt":"a prompt of over twenty tokens"}`, 400, "null"},
		{plainPath, "t", `{"prompt":"x","seed":13}`, 500, "null"},
		{plainPath, "t", `{"prompt":"x","seed":13,"stream":true}`, 500, "null"},
		{plainPath, "t", `{"prompt":"x","seed":14}`, 504, "null"},
	} {
		status, text := ask(t, web, c.path, c.token, c.body)
		if status != c.status || !strings.Contains(text, `{"error":{"code":`) || !strings.Contains(text, `"param":`+c.param) {
			t.Errorf("%s %s: %d %s\nwant %d of param %s", c.path, c.body, status, text, c.status, c.param)
		}
	}
}

// The error of a reply that does not fit names the numbers. Without max_tokens the reply may take
// all the room that the prompt leaves.
func TestReplyMustFitTheModelLength(t *testing.T) {
	web, model := start(t)
	const want = "the prompt has 16 tokens and max_completion_tokens is 5, together more than the 20 tokens of the model's " +
		"length; ask for at most 4, or leave it out"
	if status, text := ask(t, web, plainPath, "t",
		`{"prompt":"sixteen letters!","max_tokens":1,"max_completion_tokens":5}`); status != 400 ||
		!strings.Contains(text, want) || !strings.Contains(text, `"code":"context_length_exceeded"`) {
		t.Errorf("%d %s", status, text)
	}
	for _, body := range []string{`{"prompt":"sixteen letters!"}`, `{"prompt":"sixteen letters!","max_tokens":null}`,
		`{"prompt":"sixteen letters!","max_tokens":4}`} {
		if status, text := ask(t, web, plainPath, "t", body); status != 200 || model.asked.MaxTokens != 4 {
			t.Errorf("%s: %d %s, %d tokens", body, status, text, model.asked.MaxTokens)
		}
	}
}

// A stream has the same text as a whole reply. It never sends half a character, nor text that a
// later stop string removes.
func TestStreamSendsTheWholeReply(t *testing.T) {
	web, _ := start(t)
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"hi"}],"stream":true}`:                                               "a|£|c|!||",
		`{"messages":[{"role":"user","content":"hi"}],"stream":true,"stop":"c!"}`:                                   "a|£||",
		`{"messages":[{"role":"user","content":"hi"}],"stream":true,"stop":"!?"}`:                                   "a|£|c|!|",
		`{"messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},"n":1}`: "a|£|c|!|||",
	} {
		status, text := ask(t, web, chatPath, "t", body)
		var got strings.Builder
		for line := range strings.Lines(text) {
			data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			var chunk struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				t.Fatal(err, data)
			}
			for _, c := range chunk.Choices {
				got.WriteString(c.Delta.Content)
			}
			got.WriteString("|")
		}
		if status != http.StatusOK || got.String() != want || !strings.HasSuffix(text, "data: [DONE]\n\n") {
			t.Errorf("%s: %d %q, want %q\n%s", body, status, got.String(), want, text)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"}],"n":2,"stop":["a"],"max_tokens":3}`), true)
	f.Add([]byte(`{"prompt":[1,2],"logprobs":0}`), false)
	s := &Server{Name: "m", Renderer: bytesRenderer{}, MaxModelLen: 20, VocabSize: 256}
	f.Fuzz(func(t *testing.T, data []byte, chat bool) {
		q, err := s.parse(data, form(chat))
		if err == nil && (len(q.prompt) == 0 || q.params.MaxTokens < 1 || q.params.MaxTokens+len(q.prompt) > 20 ||
			q.params.N < 1 || q.params.N > maxChoices) {
			t.Errorf("%s became %+v for the prompt %v", data, q.params, q.prompt)
		}
		if err != nil && problemOf(err).status >= 500 {
			t.Errorf("%s: %v", data, err)
		}
	})
}
