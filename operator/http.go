package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("http",
		"Edits a step by a service: experiences are posted to a URL, a JSON object a line (application/x-ndjson), and those that are kept come back in the same form. "+wireForm+
			" No connection, no answer in time and the statuses 429 and 5xx are tried again, any other status than 200 ends the run. Metrics: filtered_count, reward_diff/{mean,max,min}.",
		func() trinity.Operator { return &HTTP{Timeout: 60, MaxRetryTimes: 3, MaxRetryInterval: 1} })
}

// HTTP posts each step to a service.
type HTTP struct {
	URL              string            `yaml:"url" doc:"where experiences are posted"`
	Headers          map[string]string `yaml:"headers" doc:"headers of the request, such as Authorization"`
	Timeout          float64           `yaml:"timeout" doc:"seconds for one attempt"`
	MaxRetryTimes    int               `yaml:"max_retry_times" doc:"attempts after the first"`
	MaxRetryInterval float64           `yaml:"max_retry_interval" doc:"seconds between attempts"`
}

// Validate checks the URL and the ranges.
func (h *HTTP) Validate() error {
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
func (h *HTTP) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	lines, err := encode(groups)
	if err != nil || len(lines) == 0 {
		return nil, nil, err
	}
	body, err := h.ask(ctx, bytes.Join(lines, nil))
	if err != nil {
		return nil, nil, err
	}
	answers, err := decode(body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", h.URL, err)
	}
	return edit(groups, lines, answers)
}

// passing is what may be otherwise the next time.
type passing struct{ error }

// ask posts until there is an answer, or no hope of one.
func (h *HTTP) ask(ctx context.Context, input []byte) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		body, err := h.post(ctx, input)
		var again passing
		switch {
		case err == nil:
			return body, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.As(err, &again) || attempt > h.MaxRetryTimes:
			return nil, fmt.Errorf("%s, attempt %d: %w", h.URL, attempt, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(h.MaxRetryInterval * float64(time.Second))):
		}
	}
}

// post makes one attempt.
func (h *HTTP) post(ctx context.Context, input []byte) ([]byte, error) {
	late := fmt.Errorf("no answer within timeout = %g s", h.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(h.Timeout*float64(time.Second)), late)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(input))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	for k, v := range h.Headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, passing{because(ctx, err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch status := resp.StatusCode; {
	case err != nil:
		return nil, passing{because(ctx, err)}
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("answered more than %d MiB", maxAnswer>>20)
	case status == http.StatusTooManyRequests || status >= 500:
		return nil, passing{fmt.Errorf("%s: %s", resp.Status, start(body))}
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", resp.Status, start(body))
	}
	return body, nil
}

// because is why a request failed: the deadline where it has passed.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// start is the beginning of a text, on one line.
func start(body []byte) string {
	return strings.Join(strings.Fields(string(body[:min(len(body), 300)])), " ")
}
