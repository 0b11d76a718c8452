package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
)

// scored is the answer of the task's reward function: no reward is none, and never 0.
type scored struct {
	Reward *float64           `json:"reward"`
	Parts  map[string]float64 `json:"parts,omitempty"`
	Reason string             `json:"reason,omitempty"`
}

// askReward answers with what the task's reward function says about a reply. It gives the rollout no reward.
func askReward(w http.ResponseWriter, r *http.Request) {
	control(w, r, maxMessages, func(s *session, data []byte) (any, error) {
		var in struct {
			Response *string         `json:"response"`
			Prompt   string          `json:"prompt"`
			Truth    string          `json:"truth"`
			Messages json.RawMessage `json:"messages"` // before the reply
		}
		if err := decode(data, &in); err != nil {
			return nil, err
		}
		reply := trinity.RewardInput{Prompt: in.Prompt, Truth: in.Truth}
		switch {
		case s.options.Score == nil:
			return nil, openai.Bad("response", "the task names no reward function: set default_reward_fn_type")
		case in.Response == nil:
			return nil, openai.Bad("response", "there is none: it is the reply to score")
		case in.Messages != nil:
			if err := s.readMessages(in.Messages, &reply.Messages); err != nil {
				return nil, err
			}
		}
		reply.Response = *in.Response
		if len(reply.Messages) == 0 && in.Prompt != "" {
			reply.Messages = []trinity.Message{{Role: "user", Content: in.Prompt}}
		}
		reply.Messages = append(reply.Messages, trinity.Message{Role: "assistant", Content: reply.Response})
		ctx, enough := s.within(r.Context())
		defer enough()
		reward, err := s.options.Score(ctx, reply)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return scored{Reason: err.Error()}, nil
		case !reward.Valid:
			return scored{Reason: reward.Reason}, nil
		}
		return scored{&reward.Value, reward.Parts, ""}, nil
	})
}
