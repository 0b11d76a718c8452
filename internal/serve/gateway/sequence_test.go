package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// A chat gives the sequence that is trained, as it was sampled.
func TestTheSequenceOfAChat(t *testing.T) {
	for _, steps := range []bool{false, true} {
		e := spoken(t, trinity.EndpointOptions{Steps: steps})
		var got sequence
		status, text := e.ask("/sequence", says("user:'one'", "assistant:one", "user:'two'", "assistant: two ", "user:'four'", "assistant:four",
			"user:!"))
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		if status, text := e.ask("/experiences", `{"experiences":[{"turn":3}]}`); status != http.StatusOK { // what is shown is not used up
			t.Fatal(text)
		}
		r, _ := e.recorded()
		x := r.Experiences[0]
		mask := slices.Concat(make([]bool, got.PromptLength), got.Mask.mask(len(got.Logprobs)))
		if !slices.Equal(got.IDs, x.Tokens) || got.PromptLength != x.PromptLen || !slices.Equal(mask, x.Mask) ||
			!slices.Equal(got.Logprobs, x.Logprobs[x.PromptLen:]) {
			t.Errorf("got %s, want %s", text, spelled(x))
		}
		if want := map[bool]string{false: "[0 1 3]", true: "[3]"}[steps]; fmt.Sprint(got.Turns) != want {
			t.Errorf("turns %v, want %s", got.Turns, want)
		}
	}
}

// A program may send the text of all tokens of a reply, also those that are a call of a tool.
func TestAChatOfWholeTexts(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	with := func(messages ...string) string {
		return strings.Replace(says(messages...), "{", `{"tools":[{"type":"function","function":{"name":"f"}}],`, 1)
	}
	_, called := e.ask(chat, with("user:say 'hm!{}'"))
	e.ask(chat, with("user:say 'hm!{}'", "assistant:hm!{}", "user:'two'"))
	status, text := e.ask("/sequence", with("user:say 'hm!{}'", "assistant:hm!{}", "user:'two'", "assistant:two"))
	if status != http.StatusOK || !strings.Contains(text, `"turns":[0,1]`) || !strings.Contains(called, "tool_calls") {
		t.Errorf("%d %s after %s", status, text, called)
	}
	if _, got := e.recorded(); got != "user:say 'hm!{}'|assistant:[hm!{}|]user:'two'|assistant:[two|]" {
		t.Errorf("recorded %s", got)
	}
}

// A chat that was not recorded is refused with the message at which it differs.
func TestAChatWithoutASequence(t *testing.T) {
	empty := open(t, trinity.EndpointOptions{})
	e := spoken(t, trinity.EndpointOptions{})
	for _, c := range []struct {
		at     *endpoint
		body   string
		status int
		want   string
	}{
		{e, says("user:'one'", "assistant:one", "user:'two'", "assistant:too"), 404,
			`at messages[3]: it is assistant \"too\", and was assistant \"two\"`},
		{e, says("user:'ein'", "assistant:one"), 404, `at messages[0]: it is user \"'ein'\", and was user \"'one'\"`},
		{e, says("user:'one'", "assistant:one", "user:'six'", "assistant:six"), 404, `at messages[2]: it is user \"'six'\", and was user`},
		{e, says("user:'one'", "assistant:one", "user:'three'", "assistant:three", "user:a", "assistant:b"), 404,
			`at messages[4], user \"a\": no call has continued the chat before it`},
		{e, strings.Replace(says("user:'one'", "assistant:one"), "{", `{"tools":[{"type":"function","function":{"name":"f"}}],`, 1), 404,
			"the chat is recorded with other tools"},
		{e, says("user:'one'"), 400, "no message of the assistant"},
		{e, `{}`, 400, "no message of the assistant"},
		{e, `{"messages":[],"model":"m"}`, 400, "model"},
		{e, says("wizard:a", "assistant:b"), 400, "messages[0].role"},
		{empty, says("user:'one'", "assistant:one"), 404, "this rollout has recorded no chat of the policy"},
		{e, says("user:'one'", "assistant:one"), 200, `"prompt_length":21,"mask":[[0,4]],"logprobs":[-0.125,-0.25,-0.375,-0.5],"turns":[0]`},
	} {
		status, text := c.at.ask("/sequence", c.body)
		if status != c.status || !strings.Contains(text, c.want) || strings.Contains(text, `\n`) {
			t.Errorf("%s: %d %s, want %s", c.body, status, text, c.want)
		}
	}
	if r, _ := e.recorded(); len(r.Experiences) != 3 || r.Experiences[0].TrainedTokens() != len("one|three|") {
		t.Errorf("%d experiences", len(r.Experiences))
	}
}

// The policy scores given tokens, and nothing of that is recorded.
func TestGivenTokensAreScored(t *testing.T) {
	e := open(t, trinity.EndpointOptions{MaxCalls: 1})
	for _, c := range []struct {
		scores bool
		body   string
		status int
		want   string
	}{
		{false, `{"tokens":[1,2,3]}`, 400, "this engine computes no log-probabilities of given tokens"},
		{true, `{"tokens":[1,2,3]}`, 200, `{"logprobs":[-0.25,-0.5]}`},
		{true, `{"tokens":[1]}`, 400, "want at least 2"},
		{true, `{"tokens":[]}`, 400, "no token"},
		{true, `{}`, 400, "no token"},
		{true, `{"tokens":[1,257]}`, 400, "token id 257; want 0 to 256"},
		{true, `{"tokens":[1,-1]}`, 400, "token id -1"},
		{true, `{"tokens":[1,1.5]}`, 400, "tokens has a value of another type"},
		{true, `{"tokens":[1` + strings.Repeat(",1", 199) + `]}`, 400, "there are 200 tokens, and model.max_model_len is 200"},
		{true, `{"tokens":[1,2],"model":"any"}`, 200, `{"logprobs":[-0.25]}`},
		{true, `{"tokens":[1,2],"temperature":2}`, 400, "temperature"},
	} {
		e.policy.scores = c.scores
		if status, text := e.ask("/logprobs", c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, status, text, c.want)
		}
	}
	e.reply("user:'one'")
	if r, got := e.recorded(); r.Calls != 1 || got != "user:'one'|assistant:[one|]" || e.model.SampledTokens() != len("one|") {
		t.Errorf("%d calls, recorded %s", r.Calls, got)
	}
	if status, _ := e.ask("/logprobs", `{"tokens":[1,2]}`); status != http.StatusConflict {
		t.Errorf("after the end: %d", status)
	}
}

// teacher is a judge that scores tokens, or says why it does not.
type teacher struct {
	judge
	why error
}

func (x *teacher) Logprobs(_ context.Context, tokens []int32) (out []float32, err error) {
	for _, token := range tokens[1:] {
		out = append(out, -float32(token)/8)
	}
	return out, x.why
}

// A model that is not trained scores tokens, too, by its name.
func TestTokensAreScoredByATeacher(t *testing.T) {
	chatAPI := trinity.NoAnswer("big", trinity.AskRefused, errors.New("a chat API"))
	for _, c := range []struct {
		asker  trinity.Asker
		status int
		want   string
	}{
		{&teacher{}, 200, `{"logprobs":[-0.25,-0.375]}`},
		{&judge{}, 400, `the model \"big\" is not the policy (models in workflow_args): it is asked in words and scores no tokens`},
		{&teacher{why: chatAPI}, 400, "model big: refused: a chat API"},
		{&teacher{why: trinity.NoAnswer("big", trinity.AskTimedOut, errors.New("late"))}, 504, "late"},
	} {
		e := open(t, trinity.EndpointOptions{Models: map[string]trinity.Asker{"*": nil, "big": c.asker}})
		e.policy.scores = true
		if status, text := e.ask("/logprobs", `{"tokens":[1,2,3],"model":"big"}`); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%d %s, want %s", status, text, c.want)
		}
		if _, text := e.ask("/logprobs", `{"tokens":[1,2,3],"model":"small"}`); !strings.Contains(text, "[-0.25,-0.5]") {
			t.Errorf("the policy: %s", text)
		}
		if r, got := e.recorded(); r.Calls != 0 || got != "" {
			t.Errorf("%d calls, recorded %s", r.Calls, got)
		}
	}
	dead := &teacher{why: &trinity.EngineError{Err: errors.New("dead")}}
	e := open(t, trinity.EndpointOptions{Models: map[string]trinity.Asker{"*": nil, "big": dead}})
	if status, text := e.ask("/logprobs", `{"tokens":[1,2],"model":"big"}`); status != 500 || !strings.Contains(text, "dead") {
		t.Errorf("%d %s", status, text)
	}
	if _, err := e.Close(); err == nil || err.Error() != "engine: dead" {
		t.Errorf("a broken engine ends the run: %v", err)
	}
}

// A program may ask the task's reward function. What that cannot score has no reward, and never 0.
func TestTheRewardFunctionIsAsked(t *testing.T) {
	score := func(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
		switch in.Response {
		case "broken":
			return trinity.Reward{}, errors.New("it broke")
		case "odd":
			return trinity.InvalidReward("no number"), nil
		}
		n := float64(len(in.Messages))
		return trinity.NewReward(map[string]float64{"messages": n, "truth": float64(len(in.Truth))}), nil
	}
	for _, c := range []struct {
		score  func(context.Context, trinity.RewardInput) (trinity.Reward, error)
		body   string
		status int
		want   string
	}{
		{score, `{"response":"a","truth":"bc"}`, 200, `{"reward":3,"parts":{"messages":1,"truth":2}}`},
		{score, `{"response":"a","prompt":"q"}`, 200, `"reward":2`},
		{score, `{"response":"","messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`, 200, `"reward":3`},
		{score, `{"response":"odd"}`, 200, `{"reward":null,"reason":"no number"}`},
		{score, `{"response":"broken"}`, 200, `{"reward":null,"reason":"it broke"}`},
		{score, `{}`, 400, "it is the reply to score"},
		{score, `{"response":1}`, 400, "response has a value of another type"},
		{score, `{"response":"a","answer":"b"}`, 400, "answer"},
		{score, `{"response":"a","messages":"q"}`, 400, "messages"},
		{nil, `{"response":"a"}`, 400, "set default_reward_fn_type"},
	} {
		e := spoken(t, trinity.EndpointOptions{Score: c.score})
		if status, text := e.ask("/score", c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, status, text, c.want)
		}
	}
}

// Whatever chat is sent, the answer is a sequence or one line.
func FuzzSequence(f *testing.F) {
	f.Add(says("user:'one'", "assistant:one", "user:'two'", "assistant:two"))
	f.Add(`{"tools":[],"messages":[{"role":"user","content":[{"type":"text","text":"'one'"}]},{"role":"assistant","content":null}]}`)
	e := spoken(f, trinity.EndpointOptions{})
	f.Fuzz(func(t *testing.T, body string) {
		got, err := e.Endpoint.(*session).showSequence([]byte(body))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") {
				t.Error(err)
			}
			return
		}
		s := got.(sequence)
		if len(s.IDs) != s.PromptLength+len(s.Logprobs) || len(s.Mask) != len(s.Turns) {
			t.Errorf("%+v", s)
		}
	})
}
