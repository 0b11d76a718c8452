package openai

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// scorer is a sampler that scores prompts: each token has the log-probability of its value, below 0.
type scorer struct{}

func (scorer) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	p.Seed = 1 // letters gives errors for other seeds
	if told, sampled := p.OnToken, map[int]int{}; told != nil {
		p.OnToken = func(i int, s trinity.Sampled) {
			if sampled[i]++; sampled[i] <= p.MaxTokens {
				told(i, s)
			}
		}
	}
	out, err := new(letters).Sample(ctx, prompt, p)
	for i := range out {
		if p.MaxTokens < len(out[i].Tokens) {
			out[i].Tokens, out[i].Logprobs, out[i].FinishReason = out[i].Tokens[:p.MaxTokens], out[i].Logprobs[:p.MaxTokens], "length"
		}
		if !p.ScorePrompt {
			continue
		}
		for _, t := range prompt.Tokens[1:] {
			out[i].Prompt.Logprobs = append(out[i].Prompt.Logprobs, -float32(t))
			if p.TopLogprobs > 0 {
				out[i].Prompt.TopLogprobs = append(out[i].Prompt.TopLogprobs, []trinity.TokenLogprob{{Token: 'z', Logprob: -0.25}})
			}
		}
	}
	return out, err
}

func startScorer(t *testing.T) *httptest.Server {
	t.Helper()
	served := &Served{Name: "m", Sampler: scorer{}, Renderer: bytesRenderer{}, MaxLen: 20}
	server := &Server{Name: "m", Model: served.Of, Renderer: bytesRenderer{}, VocabSize: 256, Waiting: 9, Timeout: time.Minute}
	web := httptest.NewServer(server.Handler())
	t.Cleanup(web.Close)
	return web
}

// Echoed prompts come before their replies, with a log-probability for each token but the first, as
// lm-evaluation-harness reads them.
func TestEchoedPrompts(t *testing.T) {
	web := startScorer(t)
	for _, c := range []struct{ body, want string }{
		{`"prompt":"hi","echo":true,"max_tokens":0`, `{"text":"hi","index":0,"finish_reason":"length"}`},
		{`"prompt":"hi","echo":true,"max_tokens":1`, `{"text":"hia","index":0,"finish_reason":"length"}`},
		{`"prompt":"hi","echo":true,"max_tokens":0,"logprobs":1`, `{"text":"hi","index":0,"finish_reason":"length","logprobs":{` +
			`"tokens":["h","i"],"token_logprobs":[null,-105],"top_logprobs":[null,{"i":-105,"z":-0.25}],"text_offset":[0,1]}}`},
		{`"prompt":"hi","echo":true,"max_tokens":1,"logprobs":0`, `{"text":"hia","index":0,"finish_reason":"length","logprobs":{` +
			`"tokens":["h","i","a"],"token_logprobs":[null,-105,-0.5],"text_offset":[0,1,2]}}`},
		{`"prompt":"h","echo":true,"max_tokens":0,"logprobs":1`, `{"text":"h","index":0,"finish_reason":"length","logprobs":{` +
			`"tokens":["h"],"token_logprobs":[null],"top_logprobs":[null],"text_offset":[0]}}`},
		{`"prompt":[104,105],"echo":true,"max_tokens":0`, `{"text":"hi","index":0,"finish_reason":"length"}`},
		{`"prompt":["hi"],"max_tokens":1`, `{"text":"a","index":0,"finish_reason":"length"}`},
		{`"prompt":["hi","you"],"max_tokens":1,"echo":true`,
			`{"text":"hia","index":0,"finish_reason":"length"}{"text":"youa","index":1,"finish_reason":"length"}`},
		{`"prompt":[[104,105],[121]],"max_tokens":1,"echo":true,"n":2`, `{"text":"hia","index":0,"finish_reason":"length"}` +
			`{"text":"hia","index":1,"finish_reason":"length"}{"text":"ya","index":2,"finish_reason":"length"}` +
			`{"text":"ya","index":3,"finish_reason":"length"}`},
		{`"prompt":["£","y"],"max_tokens":0,"echo":true,"logprobs":0`, `{"text":"£","index":0,"finish_reason":"length","logprobs":{` +
			`"tokens":["\ufffd","\ufffd"],"token_logprobs":[null,-163],"text_offset":[0,0]}}` +
			`{"text":"y","index":1,"finish_reason":"length","logprobs":{"tokens":["y"],"token_logprobs":[null],"text_offset":[0]}}`},
		{`"prompt":"hi","max_tokens":4,"logprobs":1`, `{"text":"a£c","index":0,"finish_reason":"length","logprobs":{` +
			`"tokens":["a","\ufffd","\ufffd","c"],"token_logprobs":[-0.5,-0.5,-0.5,-0.5],"top_logprobs":[{"a":-0.5,"z":-0.25},` +
			`{"z":-0.25,"\ufffd":-0.5},{"z":-0.25,"\ufffd":-0.5},{"c":-0.5,"z":-0.25}],"text_offset":[0,1,1,2]}}`},
		{`"prompt":"hi","stop":"c","max_tokens":9,"echo":true`, `{"text":"hia£","index":0,"finish_reason":"stop"}`},
	} {
		for _, stream := range []string{``, `,"stream":true`} {
			status, text := ask(t, web, plainPath, "", `{`+c.body+stream+`}`)
			got := choicesOf(t, text)
			if status != 200 || got != c.want {
				t.Errorf("%s%s: %d\ngot  %s\nwant %s", c.body, stream, status, got, c.want)
			}
		}
	}
	status, text := ask(t, web, plainPath, "", `{"prompt":["hi","you"],"max_tokens":0,"echo":true}`)
	if status != 200 || !strings.Contains(text, `"usage":{"completion_tokens":0,"prompt_tokens":5,"total_tokens":5}`) {
		t.Errorf("%d %s", status, text)
	}
	// A sampler that scores no prompts says so.
	letters, _ := start(t)
	status, text = ask(t, letters, plainPath, "t", `{"prompt":"hi","echo":true,"logprobs":1}`)
	if status != 400 || !strings.Contains(text, "computes no log-probabilities of prompts") {
		t.Errorf("%d %s", status, text)
	}
}

// Log-probabilities of a prompt come as vLLM writes them, beside the likely tokens that were asked for.
func TestPromptLogprobs(t *testing.T) {
	web := startScorer(t)
	both := `[null,{"105":{"decoded_token":"i","logprob":-105,"rank":null},"122":{"decoded_token":"z","logprob":-0.25,"rank":1}}]`
	alone := `[null,{"105":{"decoded_token":"i","logprob":-105,"rank":null}}]`
	for _, c := range []struct{ path, body, want string }{
		{plainPath, `"prompt":"hi","prompt_logprobs":1`, `"prompt_logprobs":` + both},
		{plainPath, `"prompt":"hi","prompt_logprobs":0,"logprobs":2`, `"prompt_logprobs":` + alone},
		{chatPath, `"messages":[{"role":"user","content":"hi"}],"prompt_logprobs":1`, `"object":"chat.completion","prompt_logprobs":` + both},
	} {
		status, text := ask(t, web, c.path, "", `{`+c.body+`,"max_tokens":1}`)
		if status != 200 || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d\ngot  %s\nwant %s", c.body, status, text, c.want)
		}
	}
	_, text := ask(t, web, plainPath, "", `{"prompt":"hi","prompt_logprobs":5,"logprobs":1,"max_tokens":1}`)
	if !strings.Contains(text, `"top_logprobs":[{"a":-0.5,"z":-0.25}]`) {
		t.Errorf("logprobs: 1 has more than one: %s", text)
	}
}

// better is a sampler whose later completions are more likely.
type better struct{ scorer }

func (b better) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	out, err := b.scorer.Sample(ctx, prompt, p)
	for i := range out {
		out[i].Tokens = []int32{int32('a' + i)}
		out[i].Logprobs = []float32{float32(i) - 9}
	}
	return out, err
}

func TestBestOf(t *testing.T) {
	served := &Served{Name: "m", Sampler: better{}, Renderer: bytesRenderer{}, MaxLen: 20}
	server := &Server{Name: "m", Model: served.Of, Renderer: bytesRenderer{}, VocabSize: 256, Waiting: 9, Timeout: time.Minute}
	web := httptest.NewServer(server.Handler())
	defer web.Close()
	status, text := ask(t, web, plainPath, "", `{"prompt":["x","y"],"best_of":4,"n":2,"max_tokens":1}`)
	want := `{"text":"d","index":0,"finish_reason":"length"}{"text":"c","index":1,"finish_reason":"length"}` +
		`{"text":"d","index":2,"finish_reason":"length"}{"text":"c","index":3,"finish_reason":"length"}`
	if got := choicesOf(t, text); status != 200 || got != want || !strings.Contains(text, `"completion_tokens":8`) {
		t.Errorf("%d\ngot  %s\nwant %s\n%s", status, got, want, text)
	}
}

// choicesOf writes the choices of a reply, or of all events of a stream.
func choicesOf(t *testing.T, text string) string {
	t.Helper()
	type choice struct {
		Text         string         `json:"text"`
		Index        int            `json:"index"`
		FinishReason *string        `json:"finish_reason"`
		Logprobs     *wire.Logprobs `json:"logprobs,omitempty"`
	}
	all := []*choice{}
	for line := range strings.Lines(text) {
		var part struct{ Choices []choice }
		data := strings.TrimSpace(strings.TrimPrefix(line, "data: "))
		if data == "" || data == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &part); err != nil {
			t.Fatal(err, line)
		}
		for _, c := range part.Choices {
			for c.Index >= len(all) {
				all = append(all, &choice{Index: len(all)})
			}
			into := all[c.Index]
			into.Text += c.Text
			if c.FinishReason != nil {
				into.FinishReason = c.FinishReason
			}
			if l := c.Logprobs; l != nil && into.Logprobs != nil {
				into.Logprobs.Tokens = append(into.Logprobs.Tokens, l.Tokens...)
				into.Logprobs.TokenLogprobs = append(into.Logprobs.TokenLogprobs, l.TokenLogprobs...)
				into.Logprobs.TopLogprobs = append(into.Logprobs.TopLogprobs, l.TopLogprobs...)
				into.Logprobs.TextOffset = append(into.Logprobs.TextOffset, l.TextOffset...)
			} else if l != nil {
				into.Logprobs = l
			}
		}
	}
	var out strings.Builder
	for _, c := range all {
		fields := []string{`{"text":` + quote(t, c.Text), `"index":` + quote(t, c.Index), `"finish_reason":` + quote(t, c.FinishReason)}
		if l := c.Logprobs; l != nil {
			scores := `"logprobs":{"tokens":` + quote(t, l.Tokens) + `,"token_logprobs":` + quote(t, l.TokenLogprobs)
			if l.TopLogprobs != nil {
				scores += `,"top_logprobs":` + quote(t, l.TopLogprobs)
			}
			fields = append(fields, scores+`,"text_offset":`+quote(t, l.TextOffset)+"}")
		}
		out.WriteString(strings.Join(fields, ",") + "}")
	}
	return out.String()
}

func quote(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "\uFFFD", `\ufffd`)
}

// The request that users reported gets an entry for each token of its prompt.
func TestTheReportedEcho(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "data", "field", "api-echo", "request.json"))
	if err != nil {
		t.Skip("the shared requests are not here:", err)
	}
	status, text := ask(t, startScorer(t), plainPath, "", strings.Replace(string(data), "NAME", "m", 1))
	var reply wire.Response
	if err := json.Unmarshal([]byte(text), &reply); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	l := reply.Choices[0].Logprobs.TokenLogprobs
	if len(l) != len("The sky is blue") || l[0] != nil || l[1] == nil {
		t.Errorf("%s", text)
	}
}

// shaped is a sampler that says what it was asked for.
type shaped struct {
	scorer
	asked *trinity.SamplingParams
}

func (s shaped) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	*s.asked = p
	out, err := s.scorer.Sample(ctx, prompt, p)
	for i := range out {
		out[i].Changed = p.Constrains()
	}
	return out, err
}

// Penalties and biases reach the sampler, and a reply says that they have shaped it.
func TestPenalties(t *testing.T) {
	asked := &trinity.SamplingParams{}
	served := &Served{Name: "m", Sampler: shaped{asked: asked}, Renderer: bytesRenderer{}, MaxLen: 20}
	server := &Server{Name: "m", Model: served.Of, Renderer: bytesRenderer{}, VocabSize: 256, Waiting: 9, Timeout: time.Minute}
	web := httptest.NewServer(server.Handler())
	defer web.Close()
	for _, c := range []struct {
		body    string
		changed bool
		ok      func() bool
	}{
		{`"presence_penalty":0.5,"frequency_penalty":-0.25`, true, func() bool {
			return asked.PresencePenalty == 0.5 && asked.FrequencyPenalty == -0.25 && asked.LogitBias == nil
		}},
		{`"logit_bias":{"97":-100,"5":1.5}`, true, func() bool {
			return len(asked.LogitBias) == 2 && asked.LogitBias[97] == -100 && asked.LogitBias[5] == 1.5
		}},
		{`"logit_bias":{},"presence_penalty":0`, false, func() bool { return !asked.Constrains() }},
	} {
		for _, stream := range []string{``, `,"stream":true`} {
			status, text := ask(t, web, plainPath, "", `{"prompt":"hi",`+c.body+stream+`}`)
			if status != 200 || !c.ok() || strings.Contains(text, `"sampled_from":"constrained"`) != c.changed {
				t.Errorf("%s%s: %d %s; the sampler got %+v", c.body, stream, status, text, asked)
			}
		}
	}
}
