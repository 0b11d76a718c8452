package gateway

import (
	"encoding/json"
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
