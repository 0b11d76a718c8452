package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// letters is a model whose tokens are bytes. It answers every prompt with "a£c!".
type letters struct {
	asked  trinity.SamplingParams
	server *Server
}

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
			if p.TopLogprobs > 0 { // two tokens have the same text
				top := []trinity.TokenLogprob{{Token: 'z', Logprob: -0.25}, {Token: 0xfe, Logprob: -1}, {Token: 0xff, Logprob: -2}}
				c.TopLogprobs = append(c.TopLogprobs, top[:min(p.TopLogprobs, len(top))])
			}
			if p.OnToken != nil {
				p.OnToken(i, c.At(len(c.Tokens)-1))
			}
		}
		c.FinishReason, c.Versions = "stop", [2]int64{3, 4}
		out = append(out, c)
	}
	return out, nil
}

type bytesRenderer struct{ trinity.Renderer }

func (bytesRenderer) Render(m []trinity.Message, _ json.RawMessage, _ bool) ([]int32, error) {
	if m[0].Role == "nobody" {
		return nil, errors.New("the template knows no role nobody")
	}
	return bytesRenderer{}.Encode(m[0].Content), nil
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

// Read takes what follows the first character for a call.
func (bytesRenderer) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	text := bytesRenderer{}.Decode(tokens)
	arguments, err := json.Marshal(map[string]string{"of": text[1:]})
	return trinity.Message{Role: "assistant", Content: text[:1]}, []trinity.ToolCall{{Name: "f", Arguments: arguments}}, err
}

func (bytesRenderer) ReadText(tokens []int32) trinity.Message {
	return trinity.Message{Role: "assistant", Content: bytesRenderer{}.Decode(tokens)}
}

func (bytesRenderer) Settled(tokens []int32, tools json.RawMessage) trinity.Message {
	m := bytesRenderer{}.ReadText(tokens)
	if len(tools) > 0 {
		m.Content = m.Content[:min(1, len(m.Content))]
	}
	m.Content = strings.TrimRight(m.Content, "\uFFFD")
	return m
}

func start(t *testing.T) (*httptest.Server, *letters) {
	t.Helper()
	model := &letters{}
	served := &Served{
		Name: "m", Sampler: model, Renderer: bytesRenderer{}, Params: trinity.SamplingParams{Temperature: 0.7, TopP: 1, MaxTokens: 5}, MaxLen: 20,
	}
	model.server = &Server{
		Name: "m", Model: served.Of, Renderer: bytesRenderer{}, VocabSize: 256, Waiting: 256,
		Timeout: time.Minute, Token: "t",
	}
	web := httptest.NewServer(model.server.Handler())
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
		{chatPath, `{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2}`,
			`{"content":[{"logprob":-0.5,"token":"a","top_logprobs":[{"logprob":-0.25,"token":"z"},{"logprob":-1,"token":"�"}]}`},
		{chatPath, `{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":1,"return_tokens_as_token_ids":true}`,
			`"token":"token_id:97","top_logprobs":[{"logprob":-0.25,"token":"token_id:122"}]`},
		{chatPath, `{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":1,"stream":true}`,
			`"delta":{"content":"a","role":"assistant"},"finish_reason":null,"index":0,"logprobs":{"content":[{"logprob":-0.5,"token":"a",` +
				`"top_logprobs":[{"logprob":-0.25,"token":"z"}]}]}`},
		{plainPath, `{"prompt":"hi","logprobs":3}`, `"top_logprobs":[{"a":-0.5,"z":-0.25,"�":-1},`},
		{plainPath, `{"prompt":"hi","logprobs":1,"stream":true}`, `"top_logprobs":[{"a":-0.5,"z":-0.25}]}`},
		{plainPath, `{"prompt":"hi","logprobs":0}`, `"tokens":["a","�","�","c","!",""]}`},
		{plainPath, `{"prompt":[104,105],"logprobs":1,"return_token_ids":true}`, `"token_logprobs":[-0.5,-0.5,-0.5,-0.5,-0.5,-0.5]`},
		{plainPath, `{"prompt":"hi","logprobs":0,"return_tokens_as_token_ids":true}`, `"tokens":["token_id:97",`},
		{plainPath, `{"prompt":"hi"}`, `"versions":[3,4]`},
		{plainPath, `{"prompt":"hi","stop":"c","min_tokens":1}`, `"text":"a£"`},
		{plainPath, `{"prompt":"hi","stop":[],"min_tokens":2}`, `"text":"a£c!"`},
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
	web, model := start(t)
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
		{chatPath, "t", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 400, `"messages"`},
		{chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"custom","custom":{"name":"f"}}]}`, 400, `"tools"`},
		{chatPath, "t", `{"model":"gpt","messages":[]}`, 404, `"model"`},
		{plainPath, "t", `{}`, 400, `"prompt"`},
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
		{plainPath, "t", `{"prompt":"x","stop":"c","min_tokens":2}`, 400, `"stop"`},
		{plainPath, "t", `{"prompt":"x","logprobs":21}`, 400, `"logprobs"`},
		{plainPath, "t", `{"prompt":"x","logprobs":-1}`, 400, `"logprobs"`},
		{plainPath, "t", `{"prompt":"x","logprobs":true}`, 400, `"logprobs"`},
		{plainPath, "t", `{"prompt":"x","logprobs":1,"top_logprobs":1}`, 400, `"top_logprobs"`},
		{chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],"logprobs":2}`, 400, `"logprobs"`},
		{chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],"top_logprobs":2}`, 400, `"top_logprobs"`},
		{chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":21}`, 400, `"top_logprobs"`},
		{chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":-1}`, 400, `"top_logprobs"`},
		{chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],"echo":true}`, 400, `"echo"`},
		{plainPath, "t", `{"prompt":"x","echo":true,"logprobs":1,"max_tokens":-1}`, 400, `"max_tokens"`},
		{plainPath, "t", `{"prompt":[]}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":[[]]}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":["x",1]}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":[1,"x"]}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":["x",""]}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":[[1],[256]]}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":["x","y"],"n":65}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":["x","y"],"return_token_ids":true}`, 400, `"return_token_ids"`},
		{plainPath, "t", `{"prompt":"x","temperature":1e-9}`, 400, `"temperature"`},
		{plainPath, "t", `{"prompt":"x","temperature":1e99}`, 400, `"temperature"`},
		{plainPath, "t", `{"prompt":"x","temperature":"hot"}`, 400, `"temperature"`},
		{plainPath, "t", `{"prompt":"x","min_p":2}`, 400, `"min_p"`},
		{plainPath, "t", `{"prompt":"x","min_p":-0.1}`, 400, `"min_p"`},
		{plainPath, "t", `{"prompt":"x","repetition_penalty":0}`, 400, `"repetition_penalty"`},
		{plainPath, "t", `{"prompt":"x","repetition_penalty":1e6}`, 400, `"repetition_penalty"`},
		{plainPath, "t", `{"prompt":"x","seed":18446744073709551616}`, 400, `"seed"`},
		{plainPath, "t", `{"prompt":"x","best_of":3,"n":2,"stream":true}`, 400, `"best_of"`},
		{plainPath, "t", `{"prompt":"x","best_of":2,"n":3}`, 400, `"best_of"`},
		{plainPath, "t", `{"prompt":"x","best_of":200}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":["x","y"],"best_of":9223372036854775807}`, 400, `"prompt"`},
		{plainPath, "t", `{"prompt":"x","prompt_logprobs":21}`, 400, `"prompt_logprobs"`},
		{plainPath, "t", `{"prompt":"x","prompt_logprobs":1,"stream":true}`, 400, `"prompt_logprobs"`},
		{plainPath, "t", `{"prompt":"xy","prompt_logprobs":1}`, 400, `"prompt_logprobs"`},
		{plainPath, "t", `{"prompt":"x","stop":[` + strings.Repeat(`"a",`, 32) + `"a"]}`, 400, `"stop"`},
		{plainPath, "t", `{"prompt":"x","stop":"` + strings.Repeat("a", 257) + `"}`, 400, `"stop"`},
		{plainPath, "t", `{"prompt":"x","stop_token_ids":[` + strings.Repeat(`7,`, 1024) + `7]}`, 400, `"stop_token_ids"`},
		{plainPath, "t", `{"prompt":"` + strings.Repeat("a", maxBody) + `"}`, 413, "null"},
		{plainPath, "t", `{"prompt":"a prompt of over twenty tokens"}`, 400, "null"},
		{plainPath, "t", `{"prompt":"x","seed":13}`, 500, "null"},
		{plainPath, "t", `{"prompt":"x","seed":13,"stream":true}`, 500, "null"},
		{plainPath, "t", `{"prompt":"x","seed":14}`, 504, "null"},
	} {
		if c.status == http.StatusGatewayTimeout {
			model.server.Timeout = 50 * time.Millisecond
		}
		status, text := ask(t, web, c.path, c.token, c.body)
		if status != c.status || !strings.Contains(text, `{"error":{"code":`) || !strings.Contains(text, `"param":`+c.param) {
			t.Errorf("%s %s: %d %s\nwant %d of param %s", c.path, c.body, status, text, c.status, c.param)
		}
	}
}

// The server refuses keys that it cannot honour, takes their values that ask for nothing, and says
// once which keys have no effect.
func TestServerRefusesWhatItCannotDo(t *testing.T) {
	web, model := start(t)
	var said []string
	model.server.Say = func(line string) { said = append(said, line) }
	chatted := func(keys string) (int, string) {
		return ask(t, web, chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],`+keys+`}`)
	}
	for key, values := range map[string][2][]string{ // refused, taken
		"response_format":      {{`{"type":"json_object"}`, `{"type":"json_schema","json_schema":{}}`}, {`null`, `{}`, `{ "type": "text" }`}},
		"tool_choice":          {{`"required"`, `{"type":"function","function":{"name":"f"}}`}, {`null`, `"auto"`, `"none"`}},
		"functions":            {{`[{"name":"f"}]`}, {`null`, `[]`}},
		"function_call":        {{`{"name":"f"}`}, {`null`, `"auto"`, `"none"`}},
		"suffix":               {{`"end"`}, {`null`, `""`}},
		"guided_json":          {{`{"type":"object"}`, `{}`}, {`null`, `""`}},
		"guided_regex":         {{`"a+"`}, {`null`, `""`}},
		"guided_choice":        {{`["a"]`}, {`null`, `[]`}},
		"guided_grammar":       {{`"root ::= x"`}, {`null`}},
		"guided_whatever":      {{`1`}, {`null`}},
		"regex":                {{`"a+"`}, {`null`}},
		"structured_outputs":   {{`{"json":{}}`, `{}`}, {`null`}},
		"json_schema":          {{`{"type":"object"}`, `{}`}, {`null`}},
		"web_search_options":   {{`{"search_context_size":"low"}`, `{}`}, {`null`}},
		"chat_template_kwargs": {{`{"enable_thinking":false}`}, {`null`, `{}`}},
		"presence_penalty":     {{`2.5`, `"x"`}, {`null`, `0`, `0.0`, `0.5`}},
		"frequency_penalty":    {{`-3`, `1e99`}, {`null`, `0e1`, `-1`}},
		"logit_bias": {
			{`{"256":1}`, `{"-1":1}`, `{"a":1}`, `{"1":101}`, `{"05":1}`, `{"+5":1}`, `["5"]`, `{"5":"1"}`}, {`null`, `{}`, `{"97":-100,"98":5}`},
		},
		"top_logprobs": {{`2`}, {`null`, `0`}},
		"echo":         {{`true`}, {`null`, `false`}},
		"moderation":   {{`{"model":"x"}`}, {`null`}},
		"modalities":   {{`["audio"]`}, {`null`, `["text"]`}},
		"best_of":      {{`2`}, {`null`, `1`}},
	} {
		for _, value := range values[0] {
			if status, text := chatted(`"` + key + `":` + value); status != 400 || !strings.Contains(text, `"param":"`+key+`"`) {
				t.Errorf("%s: %s: %d %s", key, value, status, text)
			}
		}
		for _, value := range values[1] {
			if status, text := chatted(`"` + key + `":` + value); status != 200 {
				t.Errorf("%s: %s: %d %s", key, value, status, text)
			}
		}
	}
	for range 2 {
		if status, text := chatted(`"user":"ann","metadata":{},"repetition_penalty":1.1,"my\nkey":1,"x":{"response_format":1}`); status != 200 {
			t.Errorf("unknown keys: %d %s", status, text)
		}
	}
	slices.Sort(said)
	want := []string{`requests have a key "my\nkey", which has no effect`, `requests have a key "x", which has no effect`}
	if !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	for i := range 2 * maxSaid {
		model.server.Ignore(strings.Repeat("k", 1000) + strconv.Itoa(i))
		model.server.Ignore(strconv.Itoa(i) + strings.Repeat("k", 1000))
	}
	if len(said) != maxSaid || len(said[maxSaid-1]) > 200 {
		t.Errorf("%d lines, the last %q", len(said), said[len(said)-1])
	}
}

// A client that is slow to send its request keeps no other from the sampler. The server tells
// clients that find no room when to ask again.
func TestSlowRequestsHoldNoSlot(t *testing.T) {
	web, model := start(t)
	model.server.slots = make(chan struct{}, 1)
	slow, sender := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+plainPath, slow)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t")
	slowly := make(chan int)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			close(slowly)
			return
		}
		resp.Body.Close()
		slowly <- resp.StatusCode
	}()
	if _, err := io.WriteString(sender, `{"prompt":`); err != nil {
		t.Fatal(err)
	}
	if status, text := ask(t, web, plainPath, "t", `{"prompt":"hi"}`); status != 200 {
		t.Errorf("beside a slow request: %d %s", status, text)
	}
	model.server.slots <- struct{}{} // a request in flight
	if _, err := io.WriteString(sender, `"hi"}`); err != nil {
		t.Fatal(err)
	}
	sender.Close()
	if status := <-slowly; status != http.StatusTooManyRequests {
		t.Errorf("without a slot: %d", status)
	}
	<-model.server.slots
}

// Without a token, the server answers neither a page of another site nor a name that such a site
// has bound to this machine.
func TestForeignPagesAreRefused(t *testing.T) {
	web, model := start(t)
	model.server.Token = ""
	for _, headers := range []map[string]string{{"Host": "evil.example"}, {"Origin": "http://evil.example"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+plainPath, strings.NewReader(`{"prompt":"hi"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = headers["Host"]
		req.Header.Set("Origin", headers["Origin"])
		open := httptest.NewServer(model.server.Handler())
		req.URL.Host = strings.TrimPrefix(open.URL, "http://")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		open.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%v: %s", headers, resp.Status)
		}
	}
}

// The error of a reply that does not fit names the numbers. Without max_tokens the reply may take
// all the room that the prompt leaves.
func TestReplyMustFitTheModelLength(t *testing.T) {
	web, model := start(t)
	const want = "the prompt has 16 tokens and max_completion_tokens is 5, together more than the 20 tokens of the model's " +
		"length; ask for at most 4"
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

// A reply ends before the stop string that begins first, the longest one there, in whatever order the
// request has them.
func TestOrderOfStopStringsDoesNotMatter(t *testing.T) {
	for _, c := range []struct {
		text, stops, content, stop string
	}{
		{"xaby", "b ab", "x", "ab"},
		{"xaby", "ab b", "x", "ab"},
		{"xaby", "a ab", "x", "ab"},
		{"xaby", "ab a", "x", "ab"},
		{"xaby", "y b", "xa", "b"},
		{"xaby", "c z", "xaby", ""},
	} {
		v := View{Renderer: bytesRenderer{}, Stop: strings.Fields(c.stops)}
		reply := Reply{Completion: trinity.Completion{Tokens: bytesRenderer{}.Encode(c.text)}}
		if content, stop := v.Message(reply).Content, v.Stopped(reply); content != c.content || stop != c.stop {
			t.Errorf("%q with the stops %s: %q and %q, want %q and %q", c.text, c.stops, content, stop, c.content, c.stop)
		}
	}
}

// A request with tools gets the calls apart from the text; a stream gets both at the end.
func TestCallsOfTools(t *testing.T) {
	web, _ := start(t)
	const body = `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]`
	const wants = `"content":"a",|"arguments":"{\"of\":\"£c!\"}"|"name":"f"|"id":"call_|"finish_reason":"tool_calls"`
	for _, stream := range []string{``, `,"stream":true`} {
		status, text := ask(t, web, chatPath, "t", body+stream+"}")
		for want := range strings.SplitSeq(wants, "|") {
			if status != http.StatusOK || strings.Count(text, want) != 1 {
				t.Errorf("%s: %d %s, want %s once", stream, status, text, want)
			}
		}
		if strings.Contains(text, `"index":0,"type":"function"`) != (stream != "") {
			t.Errorf("only a call in a stream has a place: %s", text)
		}
	}
	if _, text := ask(t, web, chatPath, "t", body+`,"tool_choice":"none"}`); !strings.Contains(text, `"content":"a£c!"`) {
		t.Errorf("no call is wanted, got %s", text)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"}],"n":2,"stop":["a"],"max_tokens":3}`), true)
	f.Add([]byte(`{"prompt":[1,2],"logprobs":0}`), false)
	f.Add([]byte(`{"messages":[{"role":"user"}]}`), true)
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"continue_final_message":true}`), true)
	f.Add([]byte(`{"prompt":["a",[1,2]],"echo":true,"logprobs":2,"max_tokens":0,"n":3}`), false)
	served := &Served{Name: "m", Renderer: bytesRenderer{}, MaxLen: 20}
	s := &Server{Name: "m", Model: served.Of, Renderer: bytesRenderer{}, VocabSize: 256}
	f.Fuzz(func(t *testing.T, data []byte, chat bool) {
		q, err := s.parse(nil, data, form(chat))
		if err != nil {
			return
		}
		for i, prompt := range q.prompts {
			if len(prompt) == 0 || q.most[i] < 1 || q.most[i]+len(prompt) > 20 {
				t.Errorf("%s became %+v for the prompt %v", data, q.params, prompt)
			}
		}
		if len(q.prompts) == 0 || q.params.N < 1 || q.params.N*len(q.prompts) > maxChoices {
			t.Errorf("%s became %+v for %d prompts", data, q.params, len(q.prompts))
		}
		if err != nil && ProblemOf(err).Status >= 500 {
			t.Errorf("%s: %v", data, err)
		}
	})
}
