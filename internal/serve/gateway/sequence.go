package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
)

// sequence is the recorded sequence of a chat.
type sequence struct {
	IDs          []int32   `json:"ids"`
	PromptLength int       `json:"prompt_length"`
	Mask         ranges    `json:"mask"`     // places in the response that the policy sampled, as in learn
	Logprobs     []float32 `json:"logprobs"` // of the response; 0 where the policy did not sample
	Turns        []int     `json:"turns"`    // of the calls whose replies it has
}

// showSequence returns the sequence of a chat up to the policy's last reply in it.
func (s *session) showSequence(data []byte) (any, error) {
	var given struct {
		Messages json.RawMessage `json:"messages"`
		Tools    json.RawMessage `json:"tools"`
	}
	if err := decode(data, &given); err != nil {
		return nil, err
	}
	var in struct {
		Messages []trinity.Message
		Tools    json.RawMessage
	}
	in.Tools = given.Tools
	if err := s.readMessages(given.Messages, &in.Messages); err != nil {
		return nil, err
	}
	tools, err := openai.ReadChat(in.Messages, in.Tools)
	if err != nil {
		return nil, err
	}
	for len(in.Messages) > 0 && in.Messages[len(in.Messages)-1].Role != "assistant" {
		in.Messages = in.Messages[:len(in.Messages)-1]
	}
	if len(in.Messages) == 0 {
		return nil, openai.Bad("messages", "the chat has no message of the assistant")
	}
	n, known, _ := s.find(in.Messages, tools, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == nil || known < len(in.Messages) {
		return nil, &openai.Problem{
			Status: http.StatusNotFound, Code: "not_recorded", Param: "messages", Message: difference(s.nodes, n, known, in.Messages),
		}
	}
	path := n.path(s.options.Steps)
	out := sequence{IDs: n.sequence, PromptLength: path[0].before()}
	var length int
	out.Mask, length = places(path)
	out.Logprobs = make([]float32, length)
	for i, m := range path {
		copy(out.Logprobs[out.Mask[i][0]:], m.logprobs)
		out.Turns = append(out.Turns, m.number)
	}
	return out, nil
}

// readMessages reads a chat, and keeps its images.
func (s *session) readMessages(given json.RawMessage, into *[]trinity.Message) error {
	shown, err := openai.TakeImages(s.model.Renderer, given)
	if err != nil || shown == nil {
		return err
	}
	if err := json.Unmarshal(shown, into); err != nil {
		return openai.Bad("messages", "%v", err)
	}
	return nil
}

// difference says where a chat differs from the recorded ones, of which the one that ends with n has its
// first known messages. The session's lock must be held.
func difference(replies []*node, n *node, known int, chat []trinity.Message) string {
	at, recorded := known, (*trinity.Message)(nil)
	for _, next := range replies {
		if next.parent != n || next.dialogue == nil {
			continue
		}
		messages := next.dialogue.Messages()
		i := known
		for i < min(len(messages), len(chat)) && (digest{}).and(messages[i]) == (digest{}).and(chat[i]) {
			i++
		}
		if at = max(at, i); i == at && i < len(messages) {
			recorded = &messages[i]
		}
	}
	switch {
	case at == len(chat) && at > known:
		return "the chat is recorded with other tools: send those of its calls"
	case recorded == nil && n == nil:
		return "this rollout has recorded no chat of the policy"
	case recorded == nil:
		return fmt.Sprintf("the chat differs from the recorded ones at messages[%d], %s: no call has continued the chat before it", at,
			shown(chat[at]))
	}
	return fmt.Sprintf("the chat differs from the recorded ones at messages[%d]: it is %s, and was %s", at, shown(chat[at]), shown(*recorded))
}

// shown returns the beginning of a message.
func shown(m trinity.Message) string {
	text := m.Content
	if len(m.ToolCalls) > 0 {
		text += string(m.ToolCalls)
	}
	return fmt.Sprintf("%s %.60q", m.Role, text)
}

// scorer is a model that scores tokens, in nats at temperature 1: each but the first.
type scorer interface {
	Logprobs(ctx context.Context, tokens []int32) ([]float32, error)
}

// scoreTokens answers with the log-probability of each token after the first, in nats at temperature 1,
// under a model as it is now: that of the name, or the policy. Nothing of it is recorded.
func (g *Gateway) scoreTokens(w http.ResponseWriter, r *http.Request) {
	control(w, r, maxMessages, func(s *session, data []byte) (any, error) {
		var in struct {
			Model  string  `json:"model"`
			Tokens []int32 `json:"tokens"`
		}
		if err := decode(data, &in); err != nil {
			return nil, err
		}
		of, kind, err := g.scorer(s, in.Model)
		if err != nil {
			return nil, err
		}
		if err := g.api.CheckPrompt("tokens", in.Tokens); err != nil {
			return nil, err
		}
		if len(in.Tokens) < 2 {
			return nil, openai.Bad("tokens", "there is one token; want at least 2, because the first has no log-probability")
		}
		ctx, enough := s.within(r.Context())
		defer enough()
		begun := s.begin(0)
		logprobs, err := of.Logprobs(ctx, in.Tokens)
		s.mu.Lock()
		s.stopIfBroken(err)
		s.mu.Unlock()
		if r.Context().Err() == nil {
			noting{session: s, kind: kind}.noteCall(begun, err)
		}
		switch {
		case errors.Is(err, trinity.ErrNoRoom):
			return nil, openai.TooLong("tokens", "there are %d tokens, and model.max_model_len is %d", len(in.Tokens), s.model.MaxModelLen)
		case err != nil:
			return nil, problemOf(err)
		case logprobs == nil:
			return nil, openai.Bad("tokens", "this engine computes no log-probabilities of given tokens")
		}
		return map[string][]float32{"logprobs": logprobs}, nil
	})
}

// scorer returns the model of a name, which scores tokens, and the kind of its failures; "" is the policy.
func (*Gateway) scorer(s *session, name string) (of scorer, kind trinity.FailureKind, err error) {
	if name == "" {
		return s.model, trinity.FailedAgent, nil
	}
	m, err := s.named(name, identity{}, []byte("{}"))
	if err != nil {
		return nil, "", err
	}
	asked, ok := m.(*auxiliaryModel)
	if !ok {
		return s.model, trinity.FailedAgent, nil
	}
	if of, ok = asked.asker.(scorer); !ok {
		return nil, "", asked.cannot("model", "scores no tokens")
	}
	return of, trinity.FailedModel, nil
}
