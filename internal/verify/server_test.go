package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity/engine/cpu"
)

// server answers with the figures of the oracle, in the form of one kind of server. It may have a
// fault.
type server struct {
	t      *testing.T
	oracle *cpu.Engine
	kind   string // vllm, sglang, llama.cpp, strict, text
	fault  string

	mu   sync.Mutex
	told map[string]bool // requests that got "wait" as their first answer
}

// asked is a request.
type asked struct {
	Prompt         json.RawMessage `json:"prompt"`
	MaxTokens      int             `json:"max_tokens"`
	N              int             `json:"n"`
	Temperature    float64         `json:"temperature"`
	TopP           float64         `json:"top_p"`
	Seed           uint64          `json:"seed"`
	Logprobs       *int            `json:"logprobs"`
	Echo           bool            `json:"echo"`
	PromptLogprobs *int            `json:"prompt_logprobs"`
	TopK           *int            `json:"top_k"`
}

const stop = 1

func decode(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteRune('A' + t)
	}
	return b.String()
}

func encode(text string) []int32 {
	var tokens []int32
	for _, r := range text {
		tokens = append(tokens, r-'A')
	}
	return tokens
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	if s.fault == "busy" && s.isNew(string(body)) {
		w.Header().Set("Retry-After", "0.001")
		http.Error(w, `{"error":"wait"}`, http.StatusServiceUnavailable)
		return
	}
	if s.fault == "locked" && r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, `{"error":{"message":"no key"}}`, http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
		return
	}
	var q asked
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.fault == "slow" {
		<-r.Context().Done() // the server notices the end after it has read the body
		return
	}
	prompt, refusal := s.read(&q)
	if refusal != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":%q}}`, refusal)
		return
	}
	if s.fault == "garbled" {
		fmt.Fprint(w, `{"choices":`)
		return
	}
	var choices []map[string]any
	for i := range max(1, q.N) {
		choices = append(choices, s.complete(&q, prompt, i))
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"choices": choices}); err != nil {
		s.t.Error(err)
	}
}

// isNew reports whether the server gets a request for the first time.
func (s *server) isNew(body string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.told[body]
	if s.told == nil {
		s.told = map[string]bool{}
	}
	s.told[body] = true
	return !known
}

// read returns the prompt, or the refusal of this kind of server.
func (s *server) read(q *asked) (prompt []int32, refusal string) {
	var text string
	isText := json.Unmarshal(q.Prompt, &text) == nil
	if !isText && json.Unmarshal(q.Prompt, &prompt) != nil {
		return nil, "prompt"
	}
	if isText {
		prompt = encode(text)
	}
	switch {
	case s.kind == "text" && !isText:
		return nil, "a prompt is a text"
	case (s.kind == "strict" || s.kind == "text") && q.TopK != nil:
		return nil, "unrecognized argument top_k"
	case s.kind == "llama.cpp" && (q.Echo || q.N > 1):
		return nil, "only no echo is supported, and only one completion"
	}
	return prompt, ""
}

func (s *server) complete(q *asked, prompt []int32, i int) map[string]any {
	rng := rand.New(rand.NewPCG(q.Seed+uint64(i), 5))
	tokens, values := slices.Clone(prompt), []any{nil}
	best := []int32{-1}
	s.each(prompt[:len(prompt)-1], 1, func(t int, l []float32) {
		values, best = append(values, s.said(l[prompt[t]])), append(best, argmax(l))
	})
	finish := "length"
	for len(tokens) < len(prompt)+q.MaxTokens {
		s.each(tokens, len(tokens), func(_ int, l []float32) {
			next := s.next(q, l, rng)
			tokens, values = append(tokens, next), append(values, s.said(l[next]))
		})
		if tokens[len(tokens)-1] == stop {
			finish = "stop"
			break
		}
	}
	from := len(prompt)
	if q.Echo && s.kind != "vllm" {
		from = 0
	}
	c := map[string]any{"text": decode(tokens[from:]), "finish_reason": finish}
	if s.kind == "vllm" {
		c["token_ids"] = tokens[len(prompt):]
	}
	if s.kind == "vllm" && q.PromptLogprobs != nil && s.fault != "mute" {
		list := []any{nil}
		for t := 1; t < len(prompt); t++ {
			rank := 2
			if best[t] == prompt[t] {
				rank = 1
			}
			at := map[string]any{fmt.Sprint(best[t]): map[string]any{"logprob": 0, "rank": 1}}
			at[fmt.Sprint(prompt[t])] = map[string]any{"logprob": values[t], "rank": rank}
			list = append(list, at)
		}
		c["prompt_logprobs"] = list
	}
	if q.Logprobs != nil && s.fault != "mute" {
		c["logprobs"] = s.logprobs(tokens[from:], values[from:])
	}
	return c
}

func (s *server) logprobs(tokens []int32, values []any) map[string]any {
	var names []string
	var content []map[string]any
	for i, t := range tokens {
		name := decode([]int32{t})
		if s.kind == "sglang" || s.kind == "vllm" {
			name = fmt.Sprintf("token_id:%d", t)
		}
		names = append(names, name)
		content = append(content, map[string]any{"id": t, "token": name, "logprob": values[i]})
	}
	if s.kind == "llama.cpp" {
		return map[string]any{"content": content}
	}
	return map[string]any{"tokens": names, "token_logprobs": values}
}

func (s *server) each(tokens []int32, from int, do func(t int, l []float32)) {
	if from > len(tokens) {
		return
	}
	err := s.oracle.Distributions(context.Background(), tokens, from, func(t int, l []float32) error {
		do(t, l)
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

// said returns the log-probability that the server reports.
func (s *server) said(l float32) float64 {
	if s.fault == "perturbed" {
		return float64(l) + 0.2
	}
	return float64(l)
}

func (s *server) next(q *asked, l []float32, rng *rand.Rand) int32 {
	if q.Temperature == 0 {
		return argmax(l)
	}
	temperature, topP := q.Temperature, q.TopP
	switch s.fault {
	case "cold":
		temperature = 0.7
	case "temperature ignored":
		temperature = 1
	case "top_p ignored":
		topP = 1
	}
	p, u := shaped(l, temperature, topP), rng.Float64()
	for token, q := range p {
		if u -= q; u < 0 {
			return int32(token)
		}
	}
	return argmax(l)
}

func argmax(l []float32) int32 { return int32(slices.Index(l, slices.Max(l))) }

// question asks a server of the given kind, with the given fault, and judges its answers.
func question(t *testing.T, kind, fault string, change func(*Options)) (*Report, *Answers, error) {
	t.Helper()
	engine := oracle(t)
	web := httptest.NewServer(&server{t: t, oracle: engine, kind: kind, fault: fault})
	defer web.Close()
	o := Options{Timeout: 10 * time.Second, Samples: 100, Encode: encode, Decode: decode, Stops: []int32{stop}}
	if change != nil {
		change(&o)
	}
	c, err := newClient(web.URL, o.Key, o.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	c.Pause = time.Millisecond
	prompts := [][]int32{{5, 9, 22}, {40, 41, 42, 43, 60, 3}}
	answers, err := ask(context.Background(), c, engine, prompts, o)
	if err != nil {
		return nil, nil, err
	}
	// The draws depend on the order of the requests, and each run of the tests judges some thirty servers.
	r, err := Judge(context.Background(), engine, answers.Records, o.Stops, Limits{Mean: 1e-5, Ratio: 0.02, Greedy: 0.95, Significance: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	return r, answers, nil
}

func TestServersAgree(t *testing.T) {
	for _, c := range []struct {
		kind, fault, used, warned string
	}{
		{"vllm", "", "model tiny; prompts as token ids; prompt_logprobs; token ids of replies; logprobs of sampled tokens", ""},
		{"vllm", "busy", "model tiny; prompts as token ids; prompt_logprobs; token ids of replies; logprobs of sampled tokens", ""},
		{"sglang", "", "model tiny; prompts as token ids; echo with logprobs; token ids of replies; logprobs of sampled tokens", ""},
		{"llama.cpp", "", "model tiny; prompts as token ids; token ids of replies; logprobs of sampled tokens",
			"does not report log-probabilities of given tokens"},
		{"strict", "", "model tiny; prompts as token ids; echo with logprobs; logprobs of sampled tokens",
			"refuses top_k.*reports no token ids"},
		{"text", "", "model tiny; echo with logprobs; logprobs of sampled tokens",
			"refuses top_k.*refuses token ids as prompts.*reports no token ids"},
	} {
		r, answers, err := question(t, c.kind, c.fault, nil)
		if err != nil {
			t.Errorf("%s %s: %v", c.kind, c.fault, err)
			continue
		}
		if !r.Agree || len(r.Samples) != 4 || math.IsNaN(r.MeanAbs) || r.GreedyTokens == 0 || r.Tokens < 100 {
			t.Errorf("%s %s: %+v", c.kind, c.fault, r)
		}
		if used := strings.Join(answers.Used, "; "); used != c.used {
			t.Errorf("%s %s: used %q, want %q", c.kind, c.fault, used, c.used)
		}
		if warned := strings.Join(answers.Warnings, " "); !matches(c.warned, warned) || c.warned == "" && warned != "" {
			t.Errorf("%s %s: warned %q, want %q", c.kind, c.fault, warned, c.warned)
		}
	}
}

func TestServersDisagree(t *testing.T) {
	for fault, want := range map[string]string{
		"perturbed":           "mean |difference|, nats",
		"temperature ignored": "p, first token, temperature 0.5",
		"top_p ignored":       "p, first token, temperature 1, nucleus",
		"cold":                "p, first token, temperature 1",
	} {
		r, _, err := question(t, "vllm", fault, func(o *Options) { o.Samples = 400 })
		if err != nil {
			t.Errorf("%s: %v", fault, err)
			continue
		}
		i := slices.IndexFunc(r.Checks, func(c Check) bool { return !c.OK })
		if r.Agree || i < 0 || !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK && c.Name == want }) {
			t.Errorf("%s: want the check %q to fail: %+v", fault, want, r.Checks)
		}
	}
}

func TestServersFail(t *testing.T) {
	for fault, want := range map[string]string{
		"mute":    "reports no log-probabilities: neither prompt_logprobs, nor echo",
		"slow":    `/completions: no answer within 50ms \(--timeout\)`,
		"garbled": "the answer is not the JSON that was expected: unexpected",
		"locked":  "401 Unauthorized: no key",
	} {
		_, _, err := question(t, "vllm", fault, func(o *Options) {
			o.Timeout = 10 * time.Second
			if fault == "slow" {
				o.Timeout = 50 * time.Millisecond
			}
		})
		if err == nil || !matches(want, err.Error()) {
			t.Errorf("%s: error %v, want %q", fault, err, want)
		}
	}
	if _, _, err := question(t, "vllm", "locked", func(o *Options) { o.Key, o.Samples = "secret", 0 }); err != nil {
		t.Errorf("with the key: %v", err)
	}
	_, _, err := question(t, "strict", "", func(o *Options) { o.Encode, o.Decode, o.Samples = nil, nil, 0 })
	if err == nil || !matches("no tokenizer", err.Error()) {
		t.Errorf("no ids, no tokenizer: %v", err)
	}
	for _, address := range []string{"localhost:8000", "ftp://x", "http://", "::"} {
		_, err := Ask(context.Background(), address, oracle(t), [][]int32{{1, 2}}, Options{Timeout: time.Second})
		if err == nil || !matches("is not the address of a server", err.Error()) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
