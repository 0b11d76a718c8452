package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// client talks to an OpenAI-compatible server. It retries failed connections and busy servers.
type client struct {
	openai.Client
	timeout time.Duration // of one request and its retries
}

func newClient(address, key string, timeout time.Duration) (*client, error) {
	root, err := openai.Root(address)
	if err != nil {
		return nil, err
	}
	return &client{timeout: timeout, Client: openai.Client{
		BaseURL: root + "/v1", Key: cmp.Or(key, openai.NoKey), Retries: 3, Pause: 500 * time.Millisecond, MayPass: isBusy,
	}}, nil
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

// call is Call within the client's timeout.
func (c *client) call(ctx context.Context, path string, body, answer any) error {
	late := fmt.Errorf("no answer within %v (--timeout): %w", c.timeout, context.DeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, late)
	defer cancel()
	return c.Call(ctx, path, body, answer)
}
