package rows

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// modelServer is the server of a model.
type modelServer struct {
	BaseURL    string  `yaml:"base_url" doc:"address of the API; not set: OPENAI_BASE_URL of the environment"`
	APIKey     string  `yaml:"api_key" doc:"not set: OPENAI_API_KEY of the environment"`
	Timeout    float64 `yaml:"timeout" doc:"seconds for one answer"`
	MaxRetries int     `yaml:"max_retries" doc:"how often a request is made again that got no connection, no answer in time, or one of the statuses 408, 409, 429 and 5xx"`
}

func (s *modelServer) validate() error {
	switch {
	case !(s.Timeout > 0):
		return fmt.Errorf("model_params: timeout must be more than 0 seconds, got %g", s.Timeout)
	case s.MaxRetries < 0:
		return fmt.Errorf("model_params: max_retries must not be negative, got %d", s.MaxRetries)
	}
	return nil
}

// address returns the URL of an endpoint: the endpoint itself if it is a URL, else its path below the base URL.
func (s *modelServer) address(endpoint string) (string, error) {
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

// post returns the server's answer to a JSON body.
func (s *modelServer) post(ctx context.Context, address string, body []byte) ([]byte, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	key := s.APIKey
	if key == "" {
		key = os.Getenv("OPENAI_API_KEY")
	}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	client := retry.Client{Timeout: time.Duration(s.Timeout * float64(time.Second)), Retries: s.MaxRetries, Pause: time.Second, MaxBody: 16 << 20, MayPass: mayPass}
	reply, err := client.Do(ctx, retry.Request{Method: http.MethodPost, URL: address, Header: header, Body: body})
	if err != nil {
		return nil, err
	}
	return reply.Body, nil
}

// mayPass reports whether a status is worth a retry: those that OpenAI's own clients retry.
func mayPass(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusConflict || code == http.StatusTooManyRequests || code >= 500
}

// at returns the text at a path, such as choices.0.message.content, in a JSON value; "" for null.
func at(answer []byte, path string) (string, error) {
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		return "", fmt.Errorf("the answer is not JSON: %w: %s", err, retry.OneLine(answer))
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
		return "", fmt.Errorf("the answer has no text at %s: %s", path, retry.OneLine(answer))
	}
	return s, nil
}
