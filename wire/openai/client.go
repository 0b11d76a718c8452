package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// Client sends requests to an OpenAI-compatible server.
type Client struct {
	BaseURL string        // such as http://127.0.0.1:8000/v1; "" is the environment's OPENAI_BASE_URL
	Key     string        // "" is the environment's OPENAI_API_KEY
	Timeout time.Duration // of one attempt
	Retries int           // after the first attempt
}

// maxReply bounds the bytes of a reply.
const maxReply = 16 << 20

// Address returns the URL of an endpoint: the endpoint itself if it is a URL, else its path below
// the base URL.
func (c *Client) Address(endpoint string) (string, error) {
	if strings.Contains(endpoint, "://") {
		return endpoint, nil
	}
	base := c.BaseURL
	if base == "" {
		base = os.Getenv("OPENAI_BASE_URL")
	}
	if u, err := url.Parse(base); err != nil || u.Host == "" {
		return "", fmt.Errorf("no model server at %q: want an address such as http://127.0.0.1:8000/v1", base)
	}
	return strings.TrimRight(base, "/") + "/" + strings.TrimLeft(endpoint, "/"), nil
}

// Post sends a JSON body to a URL and returns the server's reply. It retries a request that got no
// connection, no reply in time, or a status that may pass.
func (c *Client) Post(ctx context.Context, address string, body []byte) ([]byte, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	key := c.Key
	if key == "" {
		key = os.Getenv("OPENAI_API_KEY")
	}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	client := retry.Client{Timeout: c.Timeout, Retries: c.Retries, Pause: time.Second, MaxBody: maxReply, MayPass: mayPass}
	reply, err := client.Do(ctx, retry.Request{Method: http.MethodPost, URL: address, Header: header, Body: body})
	if err != nil {
		return nil, err
	}
	return reply.Body, nil
}

// mayPass reports whether a status is worth a retry. OpenAI's own clients retry the same statuses.
func mayPass(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return code >= 500
}
