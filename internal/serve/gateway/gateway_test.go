package gateway

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
	"sync"
	"testing"
	"testing/synctest"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/trinitytest"
)

// end is the token that ends a turn; all other tokens are bytes.
const end = trinitytest.ChatEnd

// chatty reads calls from replies.
type chatty struct{ trinitytest.Chat }

// Read takes what follows "!" for the arguments of a call.
func (c chatty) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	text, arguments, found := strings.Cut(c.Decode(tokens), "!")
	m := trinity.Message{Role: "assistant", Content: text}
	if !found {
		return m, nil, nil
	}
	return m, []trinity.ToolCall{{Name: "f", Arguments: json.RawMessage(arguments)}}, nil
}

// Continue makes the last message the beginning of the reply.
func (c chatty) Continue(messages []trinity.Message, _ json.RawMessage) ([]int32, trinity.Renderer, error) {
	tokens, err := c.RenderBegun(messages)
	return tokens, c, err
}

// policy replies with what the newest message says between quotes, else with a letter that follows
// from the seed and the number of bytes that it has read.
type policy struct {
	mu     sync.Mutex
	reads  [][]int32 // prompts
	holds  []<-chan struct{}
	wait   func(ctx context.Context, prompt string)
	broken error
	scores bool // tokens of prompts
}

func (p *policy) Sample(ctx context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	text := chatty{}.Decode(prompt.Tokens)
	if p.wait != nil {
		p.wait(ctx, text)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if p.broken != nil {
		return nil, p.broken
	}
	says := fmt.Sprintf("%c%d", 'a'+params.Seed%7, len(text))
	if parts := strings.Split(text, "'"); len(parts) > 2 {
		says = parts[len(parts)-2]
	}
	c := trinity.Completion{Tokens: append(chatty{}.Encode(says), end), FinishReason: "stop", Versions: [2]int64{3, 4}}
	if params.MaxTokens > 0 && len(c.Tokens) > params.MaxTokens {
		c.Tokens, c.FinishReason = c.Tokens[:params.MaxTokens], "length"
	}
	for i := range prompt.Tokens[1:] {
		if p.scores && params.ScorePrompt {
			c.Prompt.Logprobs = append(c.Prompt.Logprobs, -float32(i+1)/4)
		}
	}
	for i, token := range c.Tokens {
		c.Logprobs = append(c.Logprobs, -float32(i+1)/8)
		if params.TopLogprobs > 0 {
			c.TopLogprobs = append(c.TopLogprobs, []trinity.TokenLogprob{{Token: 'z', Logprob: -0.0625}})
		}
		if params.OnToken != nil {
			params.OnToken(0, trinity.Sampled{Token: token})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads, p.holds = append(p.reads, prompt.Tokens), append(p.holds, params.Hold)
	return []trinity.Completion{c}, nil
}

// endpoint is an endpoint of a rollout, on a server.
type endpoint struct {
	trinity.Endpoint
	t      testing.TB
	policy *policy
	model  *trinity.Model
	mu     sync.Mutex
	said   []string // lines for the log
}

func open(t testing.TB, o trinity.EndpointOptions) *endpoint {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	e := &endpoint{t: t, policy: &policy{}}
	g := New("http://"+server.Listener.Addr().String(), "m", chatty{}, 257, func(line string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.said = append(e.said, line)
	})
	server.Config.Handler = g.Handler()
	server.Start()
	t.Cleanup(server.Close)
	e.model = &trinity.Model{
		Sampler: e.policy, Renderer: chatty{}, ID: trinity.ExperienceID{Step: 3, Task: "t"}, MaxModelLen: 200,
		Params: trinity.SamplingParams{Temperature: 0.5, Seed: 7, MaxTokens: 40},
	}
	e.Endpoint = g.Open(t.Context(), e.model, o)
	return e
}

// ask posts a body to a path of the endpoint.
func (e *endpoint) ask(path, body string, header ...string) (status int, text string) {
	e.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.URL()+path, strings.NewReader(withLimit(path, body)))
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

const chat = "/chat/completions"

// says returns a chat whose messages are "role:content".
func says(messages ...string) string {
	var out []trinity.Message
	for _, m := range messages {
		role, content, _ := strings.Cut(m, ":")
		out = append(out, trinity.Message{Role: role, Content: content})
	}
	data, _ := web.Encode(map[string]any{"messages": out})
	return string(data)
}

// reply returns the content of the only reply to a chat.
func (e *endpoint) reply(messages ...string) string {
	e.t.Helper()
	status, text := e.ask(chat, says(messages...))
	var r struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Choices) != 1 {
		e.t.Fatalf("%d %s: %v", status, text, err)
	}
	return r.Choices[0].Message.Content
}

// recorded closes the endpoint and writes its experiences: what is trained in brackets, the end of a
// turn as "|".
func (e *endpoint) recorded() (*trinity.Recording, string) {
	e.t.Helper()
	r, err := e.Close()
	if err != nil {
		e.t.Fatal(err)
	}
	var all []string
	for _, x := range r.Experiences {
		if err := x.Check(); err != nil {
			e.t.Error(err)
		}
		all = append(all, spelled(x))
	}
	return r, strings.Join(all, "\n")
}

func spelled(x *trinity.Experience) string {
	var b strings.Builder
	for i, token := range x.Tokens {
		if x.Mask[i] && !x.Mask[i-1] {
			b.WriteByte('[')
		}
		if token == end {
			b.WriteByte('|')
		} else {
			b.WriteByte(byte(token))
		}
		if x.Mask[i] && (i+1 == len(x.Tokens) || !x.Mask[i+1]) {
			b.WriteByte(']')
		}
	}
	return b.String()
}

// OpenAI's own client continues a chat with a tool. Its JSON differs from ours, and the ids stay.
func TestAChatOfTheSDKIsOneSequence(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	client := sdk.NewClient(option.WithBaseURL(e.URL()), option.WithAPIKey(e.Key()))
	p := sdk.ChatCompletionNewParams{
		Model:    "gpt-9",
		Messages: []sdk.ChatCompletionMessageParamUnion{sdk.DeveloperMessage("be brief"), sdk.UserMessage(`say 'hm!{"b": 1, "a": 1e3}'`)},
		Tools:    []sdk.ChatCompletionToolUnionParam{sdk.ChatCompletionFunctionTool(sdk.FunctionDefinitionParam{Name: "f"})},
	}
	for range 2 {
		r, err := client.Chat.Completions.New(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		p.Messages = append(p.Messages, r.Choices[0].Message.ToParam())
		for _, c := range r.Choices[0].Message.ToolCalls {
			if c.Function.Arguments != `{"b": 1, "a": 1e3}` || c.ID != "call00000" || r.Choices[0].FinishReason != "tool_calls" {
				t.Errorf("%+v", r.Choices[0])
			}
			last := p.Messages[len(p.Messages)-1].OfAssistant.ToolCalls
			last[0].OfFunction.Function.Arguments = `{"a":1e3,"b":1}` // as a client that has read and written it
			p.Messages = append(p.Messages, sdk.ToolMessage("'42'", c.ID))
		}
	}
	r, got := e.recorded()
	if want := `system:be brief|user:say 'hm!{"b": 1, "a": 1e3}'|assistant:[hm!{"b": 1, "a": 1e3}|]tool:'42'|assistant:[42|]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	x := r.Experiences[0]
	if x.Temperature != 0.5 || x.Versions != [2]int64{3, 4} || x.Metrics["turns"] != 2 || x.Metrics["extension_rate"] != 1 ||
		x.Metrics["tool_call_rate"] != 0.5 || r.Calls != 2 || len(r.Messages) != 5 {
		t.Errorf("%+v with %d calls, %d messages", x, r.Calls, len(r.Messages))
	}
}

// Chats that share their beginning train it once; what the policy did not write is context.
func TestChatsBranch(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.reply("user:'one'")
	e.reply("user:'one'", "assistant:one", "user:'two'")
	e.reply("user:'one'", "assistant: one\n", "user:'three'") // clients trim
	e.reply("user:'one'", "assistant:won", "user:'four'")
	_, got := e.recorded()
	want := []string{
		"user:'one'|assistant:[one|]user:'three'|assistant:[three|]",
		"user:'one'|assistant:one|user:'two'|assistant:[two|]",
		"user:'one'|assistant:won|user:'four'|assistant:[four|]",
	}
	if got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if e.model.SampledTokens() != len("one|two|three|four|") {
		t.Errorf("%d tokens were sampled", e.model.SampledTokens())
	}
}

// Some frameworks give the assistant a name when they send its messages back.
func TestTheNameOfTheAssistantDoesNotCount(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.reply("user:'one'")
	e.ask(chat, `{"messages":[{"role":"user","content":"'one'"},{"role":"assistant","name":"adder","content":"one"},`+
		`{"role":"user","content":"'two'"}]}`)
	if _, got := e.recorded(); got != "user:'one'|assistant:[one|]user:'two'|assistant:[two|]" {
		t.Errorf("recorded %s", got)
	}
}

// In whatever order parallel calls come, the experiences are the same.
func TestParallelCallsHaveOneOrder(t *testing.T) {
	var first string
	for try := range 4 {
		e := open(t, trinity.EndpointOptions{})
		e.reply("user:'first'")
		turns, order := map[string]chan struct{}{}, []string{"a", "b", "c"}
		all := make(chan struct{})
		for _, name := range order {
			turns[name] = make(chan struct{})
		}
		var here sync.WaitGroup
		here.Add(len(order))
		go func() { here.Wait(); close(all) }()
		e.policy.wait = func(_ context.Context, prompt string) {
			here.Done()
			<-all // so that all are of one wave
			<-turns[prompt[len("user:"):len("user:")+1]]
		}
		var wg sync.WaitGroup
		done := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{})}
		for _, name := range order {
			wg.Go(func() { e.reply("user:" + name); close(done[name]) })
		}
		for i := range order {
			name := order[(i*(1+try%2)+try)%3]
			close(turns[name])
			<-done[name]
		}
		wg.Wait()
		if _, got := e.recorded(); try == 0 {
			first = got
		} else if got != first {
			t.Errorf("got\n%s\nbefore\n%s", got, first)
		}
	}
}

// The attempts of one request get one answer. Requests that clients make twice get two.
func TestARequestThatComesAgain(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	body := says("user:hi")
	ask := func(header ...string) string {
		_, text := e.ask(chat, body, header...)
		_, after, _ := strings.Cut(text, `"content":`)
		content, _, _ := strings.Cut(after, ",")
		return content
	}
	first := ask("x-stainless-retry-count", "0")
	if again := ask("x-stainless-retry-count", "1"); again != first || len(e.policy.reads) != 1 {
		t.Errorf("got %s, then %s, of %d calls", first, again, len(e.policy.reads))
	}
	ask("x-stainless-retry-count", "0")
	ask()
	ask("Idempotency-Key", "k")
	ask("Idempotency-Key", "k")
	if len(e.policy.reads) != 4 {
		t.Errorf("%d calls, want 4", len(e.policy.reads))
	}
	r, got := e.recorded()
	if len(r.Experiences) != 4 {
		t.Errorf("recorded\n%s", got)
	}
}

// A client that does not number its attempts repeats a request while the first is in flight.
func TestASilentRepeatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{answers: map[digest]*answer{}}
		calls, release := 0, make(chan struct{})
		ask := func() {
			replies, err := s.once(t.Context(), identity{silent: true}, func(context.Context) ([]openai.Reply, error) {
				calls++
				<-release
				return make([]openai.Reply, 1), nil
			})
			if len(replies) != 1 || err != nil {
				t.Errorf("%v, %v", replies, err)
			}
		}
		go ask()
		synctest.Wait()
		go ask()
		synctest.Wait()
		close(release)
		synctest.Wait()
		if ask(); calls != 2 {
			t.Errorf("%d calls of two requests at once and one later, want 2", calls)
		}
	})
}

// When a client goes away, its call of the sampler ends, and the reply is not trained on.
func TestAClientGoesAway(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	begun, freed := make(chan struct{}), make(chan struct{})
	e.policy.wait = func(ctx context.Context, _ string) { close(begun); <-ctx.Done(); close(freed) }
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, e.URL()+chat, strings.NewReader(says("user:hi")))
	go func() { <-begun; leave() }()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Error("an answer to nobody")
	}
	<-freed
	e.policy.wait = nil
	e.reply("user:hi")
	r, _ := e.recorded()
	if len(r.Experiences) != 1 || r.Calls != 2 {
		t.Errorf("%d experiences of %d calls", len(r.Experiences), r.Calls)
	}
}

func TestStreamsAndSeveralReplies(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	_, text := e.ask(chat, strings.Replace(says("user:'abc'"), "{", `{"stream":true,`, 1))
	var got []string
	for line := range strings.Lines(text) {
		if _, after, ok := strings.Cut(line, `"content":"`); ok {
			piece, _, _ := strings.Cut(after, `"`)
			got = append(got, piece)
		}
	}
	if !slices.Equal(got, []string{"a", "b", "c", ""}) {
		t.Errorf("pieces %q of %s", got, text)
	}
	status, text := e.ask(chat, strings.Replace(says("user:x"), "{", `{"n":3,`, 1))
	if status != http.StatusOK || strings.Count(text, `"index":`) != 3 {
		t.Errorf("%d %s", status, text)
	}
	e.ask("/completions", `{"prompt":"plain 'text'","max_tokens":2}`)
	_, all := e.recorded()
	if !strings.Contains(all, "user:'abc'|assistant:[abc|]") || strings.Count(all, "user:x|assistant:[") != 3 ||
		!strings.Contains(all, "plain 'text'[te]") {
		t.Errorf("recorded\n%s", all)
	}
}

// The sampler keeps the pages of all calls of a session until it ends.
func TestASessionHoldsItsPages(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.ask("/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
	e.ask("/completions", `{"prompt":"hi"}`)
	if len(e.policy.holds) != 2 || e.policy.holds[0] == nil || e.policy.holds[0] != e.policy.holds[1] {
		t.Fatalf("the calls hold %v", e.policy.holds)
	}
	if _, err := e.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.policy.holds[0]:
	default:
		t.Error("the session has ended, and the sampler still keeps its pages")
	}
}

// The most likely tokens at each place are part of chats and of plain completions, whole or streamed.
func TestTopLogprobsOfASession(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	for _, stream := range []string{"", `,"stream":true`} {
		for path, body := range map[string]string{
			"/chat/completions": `{"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":1`,
			"/completions":      `{"prompt":"hi","logprobs":1`,
		} {
			want := `"top_logprobs":[{"logprob":-0.0625,"token":"z"}]`
			if path == "/completions" {
				want = `"z":-0.0625}`
			}
			if status, text := e.ask(path, body+stream+"}"); status != 200 || !strings.Contains(text, want) {
				t.Errorf("%s%s: %d %s", path, stream, status, text)
			}
		}
	}
}

func TestWhoseSamplingCounts(t *testing.T) {
	for sampling, want := range map[trinity.Sampling]float32{trinity.SamplingOfTaskset: 0.5, trinity.SamplingOfRequest: 0.25} {
		e := open(t, trinity.EndpointOptions{Sampling: sampling})
		body := says("user:hi 'a reply that is longer than forty tokens are'")
		e.ask(chat, strings.Replace(body, "{", `{"temperature":0.25,"max_tokens":100000,`, 1))
		r, _ := e.recorded()
		if n := e.model.SampledTokens(); n != 40 {
			t.Errorf("%s: %d tokens were sampled, want the 40 that the run allows", sampling, n)
		}
		if len(r.Experiences) != 1 || r.Experiences[0].Temperature != want {
			t.Errorf("%s: %+v, want temperature %v", sampling, r.Experiences, want)
		}
	}
}

// Clients send what a reply lacks as null or [], and cut thinking and broken characters out of it.
func TestAReplyIsFoundInTheWordsOfClients(t *testing.T) {
	for _, extra := range []string{``, `,"tool_calls":null`, `,"tool_calls":[]`, `,"refusal":null,"name":null`, `,"reasoning":"hm"`,
		`,"thinking":"hm","annotations":[]`, `,"reasoning_details":[{"text":"hm"}]`} {
		e := open(t, trinity.EndpointOptions{})
		e.reply("user:'one'")
		e.ask(chat, `{"messages":[{"role":"user","content":"'one'"},{"role":"assistant","content":"one"`+extra+
			`},{"role":"user","content":"'two'"}]}`)
		if _, got := e.recorded(); strings.Contains(got, "\n") {
			t.Errorf("%s: a branch\n%s", extra, got)
		}
	}
}

// A key of a question may change what the chat template writes, so a chat with another one is not the
// chat that the policy read. How the content is given does not matter.
func TestOtherKeysOfAQuestionBranch(t *testing.T) {
	for question, branches := range map[string]bool{
		`"content":"'one'"`: false, `"content":[{"type":"text","text":"'one'","cache_control":{"type":"ephemeral"}}]`: false,
		`"content":"'one'","citations":[1]`: true,
	} {
		e := open(t, trinity.EndpointOptions{})
		e.reply("user:'one'")
		e.ask(chat, `{"messages":[{"role":"user",`+question+`},{"role":"assistant","content":"one"},{"role":"user","content":"'two'"}]}`)
		if _, got := e.recorded(); strings.Contains(got, "\n") != branches {
			t.Errorf("%s: branches %v, want %v\n%s", question, !branches, branches, got)
		}
	}
}

// The choices of a request come in one order, whichever call begins first.
func TestChoicesHaveOneOrder(t *testing.T) {
	first := ""
	for range 10 {
		e := open(t, trinity.EndpointOptions{})
		_, text := e.ask(chat, strings.Replace(says("user:x"), "{", `{"n":4,`, 1))
		_, text, _ = strings.Cut(text, `"choices"`)
		text, _, _ = strings.Cut(text, `"created"`)
		if first == "" {
			first = text
		}
		if text != first {
			t.Fatalf("got %s, before %s", text, first)
		}
	}
	e := open(t, trinity.EndpointOptions{MaxCalls: 3})
	if status, text := e.ask(chat, strings.Replace(says("user:x"), "{", `{"n":4,`, 1)); status != http.StatusTooManyRequests {
		t.Errorf("4 calls of 3: %d %s", status, text)
	}
}

// A stop token of the request is not the end of a turn, which the template still writes.
func TestAnotherStopTokenEndsNoTurn(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.ask(chat, strings.Replace(says("user:'ab'"), "{", `{"max_tokens":2,"stop_token_ids":[98],`, 1))
	e.reply("user:'ab'", "assistant:ab", "user:'two'")
	if _, got := e.recorded(); got != "user:'ab'|assistant:[ab]|user:'two'|assistant:[two|]" {
		t.Errorf("got %s", got)
	}
}

// A client repeats a call whose answer was lost. It gets the answer again, also to the last call that
// the rollout may make.
func TestAttemptsOfTheLastCall(t *testing.T) {
	e := open(t, trinity.EndpointOptions{MaxCalls: 1})
	for attempt := range 2 {
		if status, text := e.ask(chat, says("user:hi"), "x-stainless-retry-count", fmt.Sprint(attempt)); status != http.StatusOK {
			t.Errorf("attempt %d: %d %s", attempt, status, text)
		}
	}
	s := e.Endpoint.(*session)
	s.lost(s.nodes[0])
	if r, _ := e.recorded(); len(r.Experiences) != 1 {
		t.Error("one attempt got the answer, and it is not recorded")
	}
}

func TestPromptsThatAreTooLong(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.model.MaxPromptLen = 50
	long := "user:" + strings.Repeat("x", 60)
	plain := `{"prompt":"` + long + `"}`
	for path, body := range map[string]string{chat: says(long), "/completions": plain} {
		if status, text := e.ask(path, body); status != http.StatusBadRequest || !strings.Contains(text, "context_length_exceeded") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	e.reply("user:'one'")
	if said := e.reply("user:'one'", "assistant:one", long); said == "" {
		t.Error("a chat may grow beyond the longest first prompt")
	}
	if status, text := e.ask(chat, says("user:'one'", "assistant:one", long+long+long)); status != http.StatusBadRequest {
		t.Errorf("beyond the model's length: %d %s", status, text)
	}
}

func TestStepsHaveRewards(t *testing.T) {
	e := open(t, trinity.EndpointOptions{Steps: true})
	e.reply("user:'one'")
	e.reply("user:'one'", "assistant:one", "user:'two'")
	if status, text := e.ask("/reward", `{"value":0.5,"turn":1}`); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	r, got := e.recorded()
	want := "user:'one'|assistant:[one|]\nuser:'one'|assistant:one|user:'two'|assistant:[two|]"
	if got != want || r.Experiences[1].Reward.Value != 0.5 || r.Experiences[0].Reward.Valid {
		t.Errorf("got\n%s\nwith %+v, %+v", got, r.Experiences[0].Reward, r.Experiences[1].Reward)
	}
}

func TestAProgramSpeaksOfItsRollout(t *testing.T) {
	called, committed := 0, 0
	e := open(t, trinity.EndpointOptions{MaxCalls: 3, Called: func() { called++ }, Committed: func() { committed++ }})
	e.reply("user:hi")
	for _, c := range []struct {
		path, body string
		status     int
		has        string
	}{
		{"/reward", `{"value":1,"parts":{"accuracy":1}}`, 200, `{"ok":true}`},
		{"/reward", `{"parts":{"a":1,"b":0.5}}`, 200, ``},
		{"/reward", `{"parts":{"a":1e308,"b":1e308}}`, 400, `too large a number`},
		{"/reward", `{}`, 400, `there is no reward`},
		{"/reward", `{"valeu":1}`, 400, `valeu`},
		{"/reward", `{"parts":{"reward":1}}`, 400, `none of them called reward`},
		{"/reward", `{"value":1e999}`, 400, `value has a value`},
		{"/reward", `{"value":NaN}`, 400, `invalid character 'N'`},
		{"/reward", `{"value":1} 2`, 400, `more than one`},
		{"/reward", `{"value":1,"turn":0}`, 400, `"param":"turn"`},
		{"/fail", `{"kind":"bad luck"}`, 400, `want one of`},
		{"/fail", `{"kind":"tool","reason":"no disk"}`, 200, ``},
		{"/rollout", ``, 200, `"replies":[{"turn":0,"after":null,`},
		{chat, says("user:a"), 200, ``},
		{chat, says("user:b"), 200, ``},
		{chat, says("user:c"), 429, `3 calls`},
		{"/embeddings", `{}`, 404, `there is no POST /v1/embeddings here`},
		{chat, strings.Replace(says("user:a"), "{", `{"tool_choice":"required",`, 1), 400, `tool_choice`},
		{"/commit", `{}`, 200, ``},
		{"/commit", `{}`, 409, `has ended`},
		{"/reward", `{"value":1}`, 409, `rollout_ended`},
		{chat, says("user:a"), 409, `rollout_ended`},
	} {
		if status, text := e.ask(c.path, c.body); status != c.status || !strings.Contains(text, c.has) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.path, c.body, status, text, c.status, c.has)
		}
	}
	if called != 3 || committed != 1 {
		t.Errorf("the host is told of %d calls and %d commits", called, committed)
	}
	r, _ := e.recorded()
	if r.Reward == nil || r.Reward.Value != 1.5 || r.Failure == nil || r.Failure.Kind != trinity.FailedTool || len(r.Experiences) != 3 {
		t.Errorf("%+v", r)
	}
	if status, text := e.ask("/reward", `{"value":1}`); status != 409 {
		t.Errorf("after the end: %d %s", status, text)
	}
	for header, key := range map[string]string{"Authorization": "Bearer " + e.Key() + "x", "x-api-key": ""} {
		resp, err := http.DefaultClient.Do(&http.Request{
			Method: http.MethodGet, URL: must(http.NewRequest(http.MethodGet, e.URL(), nil)).URL.JoinPath("/../../../v1/models"),
			Header: http.Header{header: {key}},
		})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s %s: %d", header, key, resp.StatusCode)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A failed engine is an error of the endpoint, and it ends what the program still waits for.
func TestABrokenEngineEndsTheRollout(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.policy.broken = errors.New("no memory")
	if status, text := e.ask(chat, says("user:hi")); status != http.StatusInternalServerError {
		t.Errorf("%d %s", status, text)
	}
	var engine *trinity.EngineError
	if _, err := e.Close(); !errors.As(err, &engine) {
		t.Errorf("error %v", err)
	}
}

// Whatever a program asks, every token that it received is trained once, behind what the sampler read.
func FuzzTree(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 64, 65, 130, 7})
	f.Add([]byte{9, 200, 41, 41, 3, 255, 17, 17})
	f.Fuzz(func(t *testing.T, does []byte) {
		e := open(t, trinity.EndpointOptions{Steps: len(does)%2 == 0})
		chats := [][]string{{"user:hi"}}
		for i, b := range does[:min(len(does), 16)] {
			c := chats[int(b)%len(chats)]
			if b >= 192 {
				c = append(slices.Clip(c), "assistant:fabricated", fmt.Sprint("user:", b))
			}
			said := e.reply(c...)
			chats = append(chats, append(slices.Clip(c), "assistant:"+said, fmt.Sprintf("user:%d", i%3)))
		}
		r, err := e.Close()
		if err != nil {
			t.Fatal(err)
		}
		trained := 0
		for _, x := range r.Experiences {
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
			trained += x.TrainedTokens()
			for i := 1; i < len(x.Mask); i++ {
				read := func(prompt []int32) bool { return slices.Equal(prompt, x.Tokens[:i]) }
				if x.Mask[i] && !x.Mask[i-1] && !slices.ContainsFunc(e.policy.reads, read) {
					t.Errorf("the sampler did not read what stands before token %d of %s", i, spelled(x))
				}
			}
		}
		if trained != e.model.SampledTokens() {
			t.Errorf("%d tokens are trained, %d were sampled", trained, e.model.SampledTokens())
		}
	})
}
