package operator

import (
	"bytes"
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("http",
		"Edits a step with an HTTP service. The operator posts experiences to a URL, one JSON object a line "+
			"(application/x-ndjson), and the service answers with the experiences to keep in the same form. "+
			wireForm+
			" The operator retries a request without a connection, without an answer in time, or with the status "+
			"429 or 5xx. Any other status than 200 ends the run. Metrics: filtered_count, "+
			"reward_diff/{mean,max,min}.",
		func() trinity.Operator {
			return &httpOperator{retry.Service{Timeout: 60, MaxRetryTimes: 3, MaxRetryInterval: 1}}
		})
}

// httpOperator posts each step to a service.
type httpOperator struct {
	retry.Service `yaml:",inline"`
}

// Process implements trinity.Operator.
func (h *httpOperator) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	lines, err := encode(groups)
	if err != nil || len(lines) == 0 {
		return nil, nil, err
	}
	reply, err := h.Post(ctx, "application/x-ndjson", bytes.Join(lines, nil), maxAnswer)
	if err != nil {
		return nil, nil, err
	}
	answers, err := decode(reply)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", h, err)
	}
	return edit(groups, lines, answers)
}
