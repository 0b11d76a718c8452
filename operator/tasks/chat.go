package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Server is where a model is asked.
type Server struct {
	BaseURL    string  `yaml:"base_url" doc:"address of the API; not set: OPENAI_BASE_URL of the environment"`
	APIKey     string  `yaml:"api_key" doc:"not set: OPENAI_API_KEY of the environment"`
	Timeout    float64 `yaml:"timeout" doc:"seconds for one answer"`
	MaxRetries int     `yaml:"max_retries" doc:"how often a request is made again that got no connection, no answer in time, or one of the statuses 408, 409, 429 and 5xx"`
}

func (s *Server) validate() error {
	switch {
	case !(s.Timeout > 0):
		return fmt.Errorf("model_params: timeout must be more than 0 seconds, got %g", s.Timeout)
	case s.MaxRetries < 0:
		return fmt.Errorf("model_params: max_retries must not be negative, got %d", s.MaxRetries)
	}
	return nil
}

// address of an endpoint: itself if it is a URL, else what it is below the base.
func (s *Server) address(endpoint string) (string, error) {
	if strings.Contains(endpoint, "://") {
		return endpoint, nil
	}
	base := s.BaseURL
	if base == "" {
		base = os.Getenv("OPENAI_BASE_URL")
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" {
		return "", fmt.Errorf("no model to ask at %q: set model_params.base_url or the environment variable OPENAI_BASE_URL, such as http://127.0.0.1:8000/v1", base)
	}
	return strings.TrimRight(base, "/") + "/" + strings.TrimLeft(endpoint, "/"), nil
}

// passing is what may be otherwise the next time, after some time.
type passing struct {
	error
	after time.Duration // that the server asked for; 0 if it did not
}

// post asks until there is an answer, or no hope of one.
func (s *Server) post(ctx context.Context, address string, body []byte) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		answer, err := s.once(ctx, address, body)
		var again passing
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.As(err, &again) || attempt > s.MaxRetries:
			return nil, fmt.Errorf("%s, attempt %d: %w", address, attempt, err)
		}
		wait := again.after
		if wait == 0 {
			wait = min(time.Second<<min(attempt-1, 5), 30*time.Second)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// once makes one attempt.
func (s *Server) once(ctx context.Context, address string, body []byte) ([]byte, error) {
	late := fmt.Errorf("no answer within timeout = %g s", s.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(s.Timeout*float64(time.Second)), late)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	key := s.APIKey
	if key == "" {
		key = os.Getenv("OPENAI_API_KEY")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, passing{error: because(ctx, err)}
	}
	defer resp.Body.Close()
	const most = 16 << 20
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most))
	switch status := resp.StatusCode; {
	case err != nil:
		return nil, passing{error: because(ctx, err)}
	case status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500:
		return nil, passing{fmt.Errorf("%s: %s", resp.Status, start(answer)), retryAfter(resp.Header)}
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", resp.Status, start(answer))
	}
	return answer, nil
}

// because is why a request failed: the deadline where it has passed.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// retryAfter is how long the server asked to be left alone, at most a minute.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || !(seconds >= 0) {
		return 0
	}
	return max(time.Millisecond, time.Duration(min(seconds, 60)*float64(time.Second)))
}

// start is the beginning of a text, on one line.
func start(text []byte) string {
	return strings.Join(strings.Fields(string(text[:min(len(text), 300)])), " ")
}

// at is the text at a path, such as choices.0.message.content, in a JSON value; null is no text.
func at(answer []byte, path string) (string, error) {
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		return "", fmt.Errorf("the answer is not JSON: %w: %s", err, start(answer))
	}
	there := true
	for _, name := range strings.Split(path, ".") {
		switch w := v.(type) {
		case map[string]any:
			v, there = w[name]
		case []any:
			i, err := strconv.Atoi(name)
			if there = err == nil && i >= 0 && i < len(w); there {
				v = w[i]
			}
		default:
			there = false
		}
		if !there {
			break
		}
	}
	s, ok := v.(string)
	if !there || !ok && v != nil {
		return "", fmt.Errorf("the answer has no text at %s: %s", path, start(answer))
	}
	return s, nil
}
