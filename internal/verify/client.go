package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// client talks to an OpenAI-compatible server.
type client struct {
	base    string // ends in /v1
	key     string
	timeout time.Duration // of one request with its retries
	http    retry.Client
}

func newClient(base, key string, timeout time.Duration) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a server: want http://HOST:PORT or https://…", base)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1") + "/v1"
	u.RawQuery, u.Fragment = "", ""
	return &client{base: u.String(), key: key, timeout: timeout, http: retry.Client{Retries: 3, Pause: 500 * time.Millisecond, MayPass: isBusy}}, nil
}

// isBusy reports whether a server may serve a request later. A status of 500 is a refusal here.
func isBusy(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isRefused reports whether the server understood a request and does not serve it, so that another form of it may be tried.
func isRefused(err error) bool {
	var status *retry.StatusError
	return errors.As(err, &status) && (status.Code == http.StatusBadRequest || status.Code == http.StatusUnprocessableEntity ||
		status.Code == http.StatusInternalServerError || status.Code == http.StatusNotImplemented)
}

// errAnswer is an answer with a meaning that cannot be read.
var errAnswer = errors.New("the answer is not what an OpenAI-compatible server says")

// call posts body as JSON, or sends GET if it is nil, and decodes the answer. It retries failed connections and busy servers.
func (c *client) call(ctx context.Context, path string, body, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v (--timeout): %w", c.timeout, context.DeadlineExceeded))
	defer cancel()
	r := retry.Request{Method: http.MethodGet, URL: c.base + path, Header: http.Header{}}
	if body != nil {
		r.Method = http.MethodPost
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.http.JSON(ctx, r, body, answer)
}
