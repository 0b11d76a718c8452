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
	timeout time.Duration // of one request and its retries
	http    retry.Client
}

func newClient(base, key string, timeout time.Duration) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the address of a server: want http://HOST:PORT or https://…", base)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1") + "/v1"
	u.RawQuery, u.Fragment = "", ""
	again := retry.Client{Retries: 3, Pause: 500 * time.Millisecond, MayPass: isBusy}
	return &client{base: u.String(), key: key, timeout: timeout, http: again}, nil
}

// isBusy reports whether a status means that the server may serve the request later. Status 500 is
// a refusal here.
func isBusy(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isRefused reports whether the server rejected a request. Another form of the request may succeed.
func isRefused(err error) bool {
	var status *retry.StatusError
	return errors.As(err, &status) && (status.Code == http.StatusBadRequest || status.Code == http.StatusUnprocessableEntity ||
		status.Code == http.StatusInternalServerError || status.Code == http.StatusNotImplemented)
}

// errAnswer is the error of an answer in an unknown form.
var errAnswer = errors.New("the answer is not one of an OpenAI-compatible server")

// call posts body as JSON, or sends GET if it is nil, and decodes the answer. It retries failed
// connections and busy servers.
func (c *client) call(ctx context.Context, path string, body, answer any) error {
	late := fmt.Errorf("no answer within %v (--timeout): %w", c.timeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, late)
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
