package trinity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// end is the token that ends a turn; all other tokens are bytes.
const end = trinitytest.ChatEnd

// chatty reads calls from replies. If forgets is set, it writes the earlier replies in upper case.
type chatty struct {
	trinitytest.Chat
	forgets bool
	callID  string // of each call, as the policy wrote it
}

func (c chatty) Render(messages []trinity.Message, tools json.RawMessage, generate bool) ([]int32, error) {
	messages = slices.Clone(messages)
	for i, m := range messages {
		if c.forgets && m.Role == "assistant" {
			messages[i].Content = strings.ToUpper(m.Content)
		}
	}
	return c.Chat.Render(messages, tools, generate)
}

func (c chatty) Bridge(history, more []trinity.Message, tools json.RawMessage, ended bool) ([]int32, error) {
	if c.forgets {
		return nil, trinity.ErrRewritesHistory
	}
	return c.Chat.Bridge(history, more, tools, ended)
}

func (c chatty) Continue(messages []trinity.Message, tools json.RawMessage) ([]int32, trinity.Renderer, error) {
	tokens, err := c.Render(messages, tools, false) // chatty's own
	return tokens[:len(tokens)-1], c, err
}

// Read takes each "!" as a call of a tool, and "?" as one that it cannot read.
func (c chatty) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m := trinity.Message{Role: "assistant", Content: c.Decode(tokens)}
	if strings.Contains(m.Content, "?") {
		return m, nil, errors.New("it is a question")
	}
	var calls []trinity.ToolCall
	for range strings.Count(m.Content, "!") {
		calls = append(calls, trinity.ToolCall{ID: c.callID, Name: "shout", Arguments: json.RawMessage("{}")})
	}
	return m, calls, nil
}

// hasher replies with letters that follow from the prompt and the seed, and remembers its prompts.
type hasher struct {
	mu      sync.Mutex
	calls   [][2][]int32 // prompt and reply of each
	letters string
}

func (h *hasher) Sample(_ context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	state := p.Seed
	for _, t := range prompt.Tokens {
		state = state*6364136223846793005 + uint64(t) + 1
	}
	c := trinity.Completion{FinishReason: "stop", Versions: [2]int64{int64(state % 5), int64(state%5) + 1}}
	for i := range 1 + int(state%6) {
		state = state*6364136223846793005 + 1442695040888963407
		c.Tokens = append(c.Tokens, int32(h.letters[(state>>33)%uint64(len(h.letters))]))
		c.Logprobs = append(c.Logprobs, -float32(i+1)/4)
	}
	if p.MaxTokens > 0 && len(c.Tokens) >= p.MaxTokens {
		c.Tokens, c.Logprobs, c.FinishReason = c.Tokens[:p.MaxTokens], c.Logprobs[:p.MaxTokens], "length"
	} else {
		c.Tokens, c.Logprobs = append(c.Tokens, end), append(c.Logprobs, -0.125)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, [2][]int32{slices.Clone(prompt.Tokens), c.Tokens})
	return []trinity.Completion{c}, nil
}

func newHasher() *hasher { return &hasher{letters: "abcdefg"} }

func talker(h *hasher, r chatty) *trinity.Model {
	params := trinity.SamplingParams{Temperature: 0.5, Seed: 7}
	return &trinity.Model{Sampler: h, Renderer: r, Params: params, ID: trinity.ExperienceID{Step: 3, Task: "t"}}
}

func say(t testing.TB, d *trinity.Dialogue, text string, o ...trinity.CallOption) *trinity.Reply {
	t.Helper()
	d.Add(trinity.Message{Role: "user", Content: text})
	r, err := d.Reply(context.Background(), o...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// spelled writes an experience: trained tokens in brackets, the end of a turn as "|".
func spelled(e *trinity.Experience) string {
	var b strings.Builder
	for i, tok := range e.Tokens {
		if e.Mask[i] && !e.Mask[i-1] {
			b.WriteByte('[')
		}
		if tok == end {
			b.WriteByte('|')
		} else {
			b.WriteByte(byte(tok))
		}
		if e.Mask[i] && (i+1 == len(e.Tokens) || !e.Mask[i+1]) {
			b.WriteByte(']')
		}
	}
	return b.String()
}

func TestDialogueIsOneSequence(t *testing.T) {
	d := talker(newHasher(), chatty{}).Dialogue(nil)
	first := say(t, d, "hi")
	second := say(t, d, "more", func(p *trinity.SamplingParams) { p.MaxTokens = 1 })
	third := say(t, d, "bye")
	if first.FinishReason != "stop" || second.FinishReason != "length" || len(second.Tokens) != 1 {
		t.Errorf("replies %+v, %+v", first, second)
	}
	whole := d.Whole()
	if len(whole) != 1 {
		t.Fatalf("%d experiences, want 1", len(whole))
	}
	e := whole[0]
	want := fmt.Sprintf("user:hi|assistant:[%s|]user:more|assistant:[%s]|user:bye|assistant:[%s|]", first.Message.Content,
		second.Message.Content, third.Message.Content)
	if got := spelled(e); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e.Response != third.Message.Content || e.Prompt != "hi" || e.Temperature != 0.5 || e.Truncated != trinity.NotTruncated {
		t.Errorf("%+v", e)
	}
	if got := e.ResponseLen(); got != len(first.Tokens)+len(second.Tokens)+len(third.Tokens) || got != e.TrainedTokens() {
		t.Errorf("response of %d tokens, trained %d", got, e.TrainedTokens())
	}
	if e.Metrics["turns"] != 3 || e.Metrics["extension_rate"] != 1 || e.Metrics["branch_count"] != 0 {
		t.Errorf("metrics %v", e.Metrics)
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

func TestTemplateThatForgetsBeginsANewSequence(t *testing.T) {
	m := talker(newHasher(), chatty{forgets: true})
	d := m.Dialogue(nil)
	first, second := say(t, d, "hi"), say(t, d, "more")
	var got []string
	for _, e := range d.Whole() {
		got = append(got, spelled(e))
	}
	want := []string{fmt.Sprintf("user:hi|assistant:[%s|]", first.Message.Content),
		fmt.Sprintf("user:hi|assistant:%s|user:more|assistant:[%s|]", strings.ToUpper(first.Message.Content), second.Message.Content)}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	m.FailOnRewrite = true
	d = m.Dialogue(nil)
	say(t, d, "hi")
	d.Add(trinity.Message{Role: "user", Content: "more"})
	if _, err := d.Reply(context.Background()); !errors.Is(err, trinity.ErrRewritesHistory) {
		t.Errorf("error %v", err)
	}
}

func TestAnotherTemperatureBeginsANewSequence(t *testing.T) {
	d := talker(newHasher(), chatty{}).Dialogue(nil)
	say(t, d, "hi")
	say(t, d, "more", func(p *trinity.SamplingParams) { p.Temperature = 1 })
	whole := d.Whole()
	if len(whole) != 2 || whole[0].Temperature != 0.5 || whole[1].Temperature != 1 ||
		!strings.HasPrefix(spelled(whole[1]), "user:hi|assistant:") {
		t.Errorf("%d experiences, temperatures %v", len(whole), whole)
	}
}

func TestParallelForksDrawTheSame(t *testing.T) {
	replies := func(order []int) []string {
		d := talker(newHasher(), chatty{}).Dialogue(nil)
		say(t, d, "hi")
		forks, texts := make([]*trinity.Dialogue, 4), make([]string, 4)
		for i := range forks {
			forks[i] = d.Fork()
		}
		var wg sync.WaitGroup
		for _, i := range order {
			wg.Go(func() { texts[i] = say(t, forks[i], fmt.Sprint("branch ", i)).Message.Content })
		}
		wg.Wait()
		return texts
	}
	want := replies([]int{0, 1, 2, 3})
	for range 20 {
		if got := replies([]int{3, 1, 0, 2}); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	// Two equal prompts draw different replies.
	m := talker(newHasher(), chatty{})
	if a, b := say(t, m.Dialogue(nil), "hello"), say(t, m.Dialogue(nil), "hello"); a.Message.Content == b.Message.Content {
		t.Errorf("both replies are %q", a.Message.Content)
	}
}

func TestStemIsTrainedOnce(t *testing.T) {
	m := talker(newHasher(), chatty{})
	d := m.Dialogue(nil)
	first := say(t, d, "hi")
	fork := d.Fork()
	second, other := say(t, d, "more"), say(t, fork, "else")
	a, b := d.Whole()[0], fork.Whole()[0]
	for of, want := range map[*trinity.Experience]string{
		a: fmt.Sprintf("user:hi|assistant:[%s|]user:more|assistant:[%s|]", first.Message.Content, second.Message.Content),
		b: fmt.Sprintf("user:hi|assistant:%s|user:else|assistant:[%s|]", first.Message.Content, other.Message.Content),
	} {
		if got := spelled(of); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if b.ResponseLen() != len(other.Tokens) {
		t.Errorf("response of %d tokens, want %d", b.ResponseLen(), len(other.Tokens))
	}
	if got := a.TrainedTokens() + b.TrainedTokens(); got != m.SampledTokens() {
		t.Errorf("%d tokens are trained, %d were sampled", got, m.SampledTokens())
	}
	if again := spelled(d.Whole()[0]); again != spelled(a) {
		t.Errorf("a second time Whole returns %s", again)
	}
}

func TestCallsGetIDs(t *testing.T) {
	h := newHasher()
	h.letters = "!"
	d := talker(h, chatty{}).Dialogue(json.RawMessage(`[{}]`))
	var ids []string
	for range 2 {
		for _, c := range say(t, d, "go").Calls {
			ids = append(ids, c.ID)
		}
	}
	for i, id := range ids {
		if id != fmt.Sprintf("call%05d", i) {
			t.Errorf("call %d has the id %q", i, id)
		}
	}
	const first = `[{"id":"call00000","type":"function","function":{"name":"shout","arguments":{}}}`
	if got := string(d.Messages()[1].ToolCalls); !strings.HasPrefix(got, first) {
		t.Errorf("tool_calls %s", got)
	}
	h.letters = "?"
	if r := say(t, d, "and?"); r.Malformed != "it is a question" {
		t.Errorf("%+v", r)
	}
	if m := d.Whole()[0].Metrics; m["tool_call_rate"] != 2.0/3 || m["tool_call_malformed_rate"] != 1.0/3 {
		t.Errorf("metrics %v", m)
	}
}

func TestDialogueEndsWhereThereIsNoRoom(t *testing.T) {
	m := talker(newHasher(), chatty{})
	m.MaxModelLen = 20
	d := m.Dialogue(nil)
	say(t, d, "hi") // 18 tokens of prompt
	d.Add(trinity.Message{Role: "user", Content: "more"})
	if _, err := d.Reply(context.Background()); !errors.Is(err, trinity.ErrNoRoom) {
		t.Errorf("error %v", err)
	}
	if got := len(d.Whole()[0].Tokens); got > 20 {
		t.Errorf("%d tokens", got)
	}
	m = talker(newHasher(), chatty{})
	m.MaxPromptLen, m.TruncatePrompt = 5, true
	d = m.Dialogue(nil)
	d.Add(trinity.Message{Role: "user", Content: "a long question"})
	if _, err := d.Reply(context.Background()); !errors.Is(err, trinity.ErrNoRoom) {
		t.Errorf("error %v", err)
	}
	if e := d.Whole()[0]; e.Truncated != trinity.PromptTruncated || e.Reward.Valid || e.TrainedTokens() != 0 {
		t.Errorf("%+v", e)
	}
	m.TruncatePrompt = false
	d = m.Dialogue(nil)
	d.Add(trinity.Message{Role: "user", Content: "a long question"})
	if _, err := d.Reply(context.Background()); err == nil || !strings.Contains(err.Error(), "max_prompt_tokens 5") {
		t.Errorf("error %v", err)
	}
}

func TestMisuseIsAnError(t *testing.T) {
	d := talker(newHasher(), chatty{}).Dialogue(nil)
	if _, err := d.Reply(context.Background()); err == nil {
		t.Error("a reply to nothing")
	}
	say(t, d, "hi")
	if _, err := d.Reply(context.Background()); err == nil {
		t.Error("a reply to a reply")
	}
}

// What the assistant is said to have said is read and not learnt.
func TestAnAddedReplyIsContext(t *testing.T) {
	d := talker(newHasher(), chatty{}).Dialogue(nil)
	first := say(t, d, "hi")
	d.Add(trinity.Message{Role: "assistant", Content: "I said"})
	prompt, err := d.Prompt()
	if err != nil {
		t.Fatal(err)
	}
	second := say(t, d, "so?")
	e := d.Whole()[0]
	want := fmt.Sprintf("user:hi|assistant:[%s|]assistant:I said|user:so?|assistant:[%s|]", first.Message.Content, second.Message.Content)
	if got := spelled(e); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := "user:hi|assistant:" + first.Message.Content + "|assistant:I said|assistant:"; chattyText(prompt) != want {
		t.Errorf("prompt %s, want %s", chattyText(prompt), want)
	}
}

// A reply continues a message that begins it, in the sequence of the dialogue. Training learns the rest.
func TestABegunReplyIsContinued(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		h := newHasher()
		m := talker(h, chatty{forgets: forgets})
		d := m.Dialogue(nil)
		var replies []string
		for _, user := range []string{"hi", "more"} {
			d.Add(trinity.Message{Role: "user", Content: user})
			d.Begin(trinity.Message{Role: "assistant", Content: "I say "})
			r, err := d.Reply(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			replies = append(replies, r.Message.Content)
		}
		said := func(i int) string { return "I say " + replies[i] }
		want := []string{fmt.Sprintf("user:hi|assistant:I say [%s|]user:more|assistant:I say [%s|]", replies[0], replies[1])}
		if forgets {
			want = []string{fmt.Sprintf("user:hi|assistant:I SAY [%s|]", replies[0]),
				fmt.Sprintf("user:hi|assistant:%s|user:more|assistant:I SAY [%s|]", strings.ToUpper(said(0)), replies[1])}
		}
		var got []string
		for _, e := range d.Whole() {
			got = append(got, spelled(e))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if last := d.Messages()[3]; len(d.Messages()) != 4 || last.Content != said(1) {
			t.Errorf("messages %q", d.Messages())
		}
		d.Begin(trinity.Message{Role: "assistant", Content: "and "}) // after a reply, it begins another turn
		if prompt, err := d.Prompt(); err != nil ||
			!strings.HasSuffix(strings.ToLower(chattyText(prompt)), strings.ToLower(said(1))+"|assistant:and ") {
			t.Errorf("prompt %s, %v", chattyText(prompt), err)
		}
	}
	d := talker(newHasher(), chatty{}).Dialogue(nil)
	d.Begin(trinity.Message{Role: "assistant", ToolCalls: json.RawMessage(`[{}]`)})
	if _, err := d.Reply(context.Background()); err == nil || !strings.Contains(err.Error(), "calls tools") {
		t.Errorf("error %v", err)
	}
	d.Begin(trinity.Message{Role: "user", Content: "x"})
	if _, err := d.Prompt(); err == nil {
		t.Error("a user's message is continued")
	}
}

// chattyText returns tokens as text, with | for the token that ends a turn.
func chattyText(tokens []int32) string {
	return spelled(&trinity.Experience{Tokens: tokens, Mask: make([]bool, len(tokens))})
}

// However a rollout calls the model, every sampled token is trained in exactly one experience, and
// what stands before it is what the sampler read, id by id.
func FuzzCallTree(f *testing.F) {
	f.Add([]byte("01234567"), true)
	f.Add([]byte{4, 4, 1, 1, 0, 2, 2, 8, 9, 250, 251}, false)
	f.Fuzz(func(t *testing.T, does []byte, whole bool) {
		h := newHasher()
		m := talker(h, chatty{forgets: len(does) > 0 && does[0]%7 == 0})
		open := []*trinity.Dialogue{m.Dialogue(nil)}
		for i, b := range does[:min(len(does), 24)] {
			d := open[int(b)%len(open)]
			switch b / 8 % 4 {
			case 0:
				open = append(open, d.Fork())
			case 1:
				open = append(open, m.Dialogue(nil))
			case 2:
				say(t, d, fmt.Sprint(i), func(p *trinity.SamplingParams) { p.MaxTokens = 1 + int(b%5) })
			default:
				say(t, d, fmt.Sprint(b%3), func(p *trinity.SamplingParams) { p.Temperature = float32(1+b%2) / 2 })
			}
		}
		var all []*trinity.Experience
		for _, d := range open {
			if whole {
				all = append(all, d.Whole()...)
			} else {
				all = append(all, d.Steps()...)
			}
		}
		trained := 0
		for _, e := range all {
			if err := e.Check(); err != nil {
				t.Fatal(err)
			}
			trained += e.TrainedTokens()
			for begin := 1; begin < len(e.Mask); begin++ {
				if !e.Mask[begin] || e.Mask[begin-1] {
					continue
				}
				n := begin
				for n < len(e.Mask) && e.Mask[n] {
					n++
				}
				if !wasRead(h, e.Tokens[:begin], e.Tokens[begin:n]) {
					t.Errorf("the sampler did not read what stands before %v in %s", e.Tokens[begin:n], spelled(e))
				}
			}
		}
		if trained != m.SampledTokens() {
			t.Errorf("%d tokens are trained, %d were sampled", trained, m.SampledTokens())
		}
	})
}

// wasRead reports whether the sampler gave a reply to a prompt.
func wasRead(h *hasher, prompt, reply []int32) bool {
	return slices.ContainsFunc(h.calls, func(c [2][]int32) bool { return slices.Equal(c[0], prompt) && slices.Equal(c[1], reply) })
}

// A policy may write the id of an earlier call again.
func TestIDsOfCallsAreUnique(t *testing.T) {
	h := newHasher()
	h.letters = "!"
	d := talker(h, chatty{callID: "call00001"}).Dialogue(nil)
	ids := map[string]bool{}
	for range 3 {
		for _, call := range say(t, d, "again").Calls {
			if ids[call.ID] {
				t.Errorf("the id %q came twice", call.ID)
			}
			ids[call.ID] = true
		}
	}
	if len(ids) < 3 || !ids["call00001"] {
		t.Errorf("ids %v", ids)
	}
}
