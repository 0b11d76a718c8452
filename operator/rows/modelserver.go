package rows

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// modelServer says where a model is served.
type modelServer struct {
	BaseURL    string  `yaml:"base_url" doc:"address of the API; default: OPENAI_BASE_URL of the environment"`
	APIKey     string  `yaml:"api_key" secret:"true" doc:"default: OPENAI_API_KEY of the environment"`
	Timeout    float64 `yaml:"timeout" range:"(0,inf]" doc:"seconds for one answer"`
	MaxRetries int     `yaml:"max_retries" range:"[0,)" doc:"retries without a connection or answer in time, or after 408, 409, 429, 5xx"`
}

func (s *modelServer) client() *openai.Client {
	return &openai.Client{BaseURL: s.BaseURL, Key: s.APIKey, Timeout: wait.Seconds(s.Timeout), Retries: s.MaxRetries}
}

// address returns the URL of an endpoint.
func (s *modelServer) address(endpoint string) (string, error) {
	address, err := s.client().Address(endpoint)
	if err != nil {
		return "", fmt.Errorf("%w: set model_params.base_url or the environment variable OPENAI_BASE_URL", err)
	}
	return address, nil
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
