package workflow

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("http",
		"A service makes the rollout: an agent that runs as a server on this machine. Each rollout is a POST of a JSON object: task, row (all "+
			"columns), prompt, truth, eval, seed, and base_url and api_key, at which the service asks the policy over the OpenAI API. The service "+
			"answers with status 200 when the rollout has ended; the body of the answer has no effect. "+rewardRule+
			"A rollout that has called the model is not attempted again, unless idempotent is set.",
		func() trinity.Workflow {
			return &httpWorkflow{retry.Service{Timeout: 1800, MaxRetryInterval: 1}, defaultAgent()}
		})
}

// httpWorkflow posts each rollout to a service.
type httpWorkflow struct {
	retry.Service `yaml:",inline"`
	agentArgs     `yaml:",inline"`
}

// Validate checks the arguments.
func (h *httpWorkflow) Validate() error {
	if h.MaxRetryTimes > 0 && !h.Idempotent {
		return errors.New("max_retry_times: the service may act on a request that seems lost: leave it out, or set idempotent")
	}
	if err := h.agentArgs.Validate(); err != nil {
		return err
	}
	return h.Service.Validate()
}

// Run implements [trinity.Workflow].
func (h *httpWorkflow) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return h.run(ctx, r, nil, nil, func(ctx context.Context, _ trinity.Endpoint, assignment []byte) ([]byte, error) {
		return h.Post(ctx, "application/json", assignment, maxSaid)
	})
}
