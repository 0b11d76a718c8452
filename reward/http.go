package reward

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/score"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("http",
		"The reward that an HTTP service gives. The function posts a question for each reply (application/json), and the service answers with "+
			"status 200. "+wireForm+
			"It asks again without a connection, without an answer in time, or after the status 429 or 5xx; after any other failure the "+
			"rollout has no valid reward. Parts: those of the service.",
		func() trinity.RewardFunc {
			return &httpReward{Service: retry.Service{Timeout: 60, MaxRetryTimes: 3, MaxRetryInterval: 1}, Workers: 8}
		})
}

// httpReward asks a service.
type httpReward struct {
	retry.Service `yaml:",inline"`
	Workers       int `yaml:"workers" range:"[1,)" doc:"questions at once"`

	slots chan struct{} // one element for each question in flight
}

// Validate checks the arguments.
func (h *httpReward) Validate() error {
	h.slots = make(chan struct{}, h.Workers)
	return h.Service.Validate()
}

// Score implements [trinity.RewardFunc].
func (h *httpReward) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	question, err := encode(in)
	if err != nil {
		return trinity.Reward{}, err
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return trinity.Reward{}, fmt.Errorf("%s: all %d workers are busy: %w", h, h.Workers, context.Cause(ctx))
	}
	text, err := h.Post(ctx, "application/json", question, score.MaxAnswer)
	if err != nil {
		return trinity.Reward{}, err
	}
	return answerOf(h.String(), text)
}
