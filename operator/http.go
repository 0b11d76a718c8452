package operator

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wait"
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
		func() trinity.Operator { return &httpOperator{Timeout: 60, MaxRetryTimes: 3, MaxRetryInterval: 1} })
}

// httpOperator posts each step to a service.
type httpOperator struct {
	URL              string            `yaml:"url" doc:"where experiences are posted"`
	Headers          map[string]string `yaml:"headers" secret:"true" doc:"headers of the request, such as Authorization"`
	Timeout          float64           `yaml:"timeout" doc:"seconds for one attempt"`
	MaxRetryTimes    int               `yaml:"max_retry_times" doc:"attempts after the first"`
	MaxRetryInterval float64           `yaml:"max_retry_interval" doc:"seconds between attempts"`
}

// Validate checks the URL and the ranges.
func (h *httpOperator) Validate() error {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url: want http://host… or https://host…, got %q", h.URL)
	case !(h.Timeout > 0):
		return fmt.Errorf("timeout: must be more than 0 seconds, got %g", h.Timeout)
	case h.MaxRetryTimes < 0:
		return fmt.Errorf("max_retry_times: must not be negative, got %d", h.MaxRetryTimes)
	case !(h.MaxRetryInterval >= 0):
		return fmt.Errorf("max_retry_interval: must not be negative, got %g", h.MaxRetryInterval)
	}
	return nil
}

// Process implements trinity.Operator.
func (h *httpOperator) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	lines, err := encode(groups)
	if err != nil || len(lines) == 0 {
		return nil, nil, err
	}
	header := http.Header{"Content-Type": {"application/x-ndjson"}}
	for k, v := range h.Headers {
		header.Set(k, v)
	}
	pause := wait.Seconds(h.MaxRetryInterval)
	client := retry.Client{Timeout: wait.Seconds(h.Timeout), Retries: h.MaxRetryTimes, Pause: pause, MaxPause: pause, MaxBody: maxAnswer}
	request := retry.Request{Method: http.MethodPost, URL: h.URL, Header: header, Body: bytes.Join(lines, nil), Accept: isOK}
	reply, err := client.Do(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	answers, err := decode(reply.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", request, err)
	}
	return edit(groups, lines, answers)
}

func isOK(code int) bool { return code == http.StatusOK }
