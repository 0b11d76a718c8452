package trinity_test

import (
	"context"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// openingOf is a reward function that keeps what it is told about the reply's opening.
type openingOf struct{ opening, response string }

func (o *openingOf) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	o.opening, o.response = in.Opening, in.Response
	return trinity.NewReward(nil), nil
}

func TestRewardsKnowHowTheTemplateBeganTheReply(t *testing.T) {
	of := trinitytest.Chat{}
	for _, c := range []struct {
		name, prompt, response, want string
		between, last                string // of a second turn
	}{
		{name: "opened", prompt: "assistant:<think>\n", response: "r</think>2", want: "<think>\n"},
		{name: "without spaces", prompt: "assistant:<think>", response: "r</think>2", want: "<think>"},
		{name: "closed", prompt: "assistant:<think>\n\n</think>\n\n", response: "2"},
		{name: "not opened", prompt: "assistant:", response: "<think>r</think>2"},
		{name: "opened twice", prompt: "assistant:<think>\n", response: "<think>r</think>2", want: "<think>\n"},
		{name: "a prefix of the task's", prompt: "assistant:<think>", response: "<think>r"},
		{name: "a prefix after the tag", prompt: "assistant:<think>So ", response: "So r", want: "<think>"},
		{name: "the second turn", prompt: "assistant:<think>", response: "r</think>2", between: "user:3 assistant:<think>\n", last: "r</think>4",
			want: "<think>\n"},
		{name: "the second turn alone", prompt: "assistant:", response: "2", between: "user: <think>", last: "r", want: "<think>"},
		{name: "only the first turn", prompt: "assistant:<think>", response: "2", between: "user:", last: "r"},
		{name: "no reply", prompt: "assistant:<think>", want: "<think>"},
	} {
		e := &trinity.Experience{Tokens: of.Encode(c.prompt), Response: c.response}
		e.PromptLen = len(e.Tokens)
		e.Mask = make([]bool, e.PromptLen)
		add := func(text string, learnt bool) {
			for _, token := range of.Encode(text) {
				e.Tokens, e.Mask = append(e.Tokens, token), append(e.Mask, learnt)
			}
		}
		sampled := c.response
		switch c.name {
		case "a prefix of the task's":
			sampled = "r"
		case "a prefix after the tag":
			sampled = "r"
		}
		add(sampled, true)
		if c.last != "" {
			add(c.between, false)
			add(c.last, true)
			e.Response = c.last
		}
		said := &openingOf{}
		r := &trinity.Rollout{Task: &trinity.Task{}, Model: &trinity.Model{Renderer: of}, Reward: said}
		if err := r.Score(t.Context(), e); err != nil || said.opening != c.want || said.response != e.Response {
			t.Errorf("%s: opening %q and response %q, %v; want %q", c.name, said.opening, said.response, err, c.want)
		}
	}
}
