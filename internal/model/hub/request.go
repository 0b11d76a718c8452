package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/trinity-go/trinity/internal/retry"
)

// do sends a request and retries it with growing pauses. An error is temporary
// ([retry.IsTemporary]) if the network or the server still fails, or says what to do. from > 0 asks
// for the rest of a file from that byte on. The caller closes the body.
func (c *client) do(ctx context.Context, r repository, method, address string, from int64) (*http.Response, error) {
	header := http.Header{"User-Agent": {"trinity-go"}, "Accept-Encoding": {"identity"}} // so that lengths and ranges count bytes of the file
	if c.token != "" && !r.modelScope {
		header.Set("Authorization", "Bearer "+c.token)
	}
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	accept := func(code int) bool {
		return code/100 == 2 || code/100 == 3 && method == http.MethodHead || code == http.StatusRequestedRangeNotSatisfiable && from > 0
	}
	client := retry.Client{HTTP: c.http, Retries: attempts - 1, Pause: c.backoff}
	response, err := client.Open(ctx, retry.Request{Method: method, URL: address, Header: header, Accept: accept})
	var status *retry.StatusError
	if errors.As(err, &status) && !retry.IsTemporary(err) {
		return nil, c.refusal(r, address, status)
	}
	if retry.IsTemporary(err) && ctx.Err() == nil {
		return nil, fmt.Errorf("hub: %s: %w: without the hub, give a file or directory of this machine", r, err)
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %s: %w", r, err)
	}
	return response, nil
}

// refusal returns the error for an answer that a retry would not change.
func (c *client) refusal(r repository, address string, status *retry.StatusError) error {
	reason := status.Header.Get("X-Error-Message")
	if reason != "" {
		reason = ": " + reason
	}
	token := "HF_TOKEN is not set"
	if c.token != "" {
		token = "the token in HF_TOKEN does not allow it"
	}
	kind := strings.TrimSuffix(r.kind(), "s")
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		if r.modelScope {
			return fmt.Errorf("hub: %s: %s refuses (%s)%s; the %s may be private or not exist", r, status.Host, status.Status, reason, kind)
		}
		return fmt.Errorf("hub: %s: %s refuses (%s)%s; the %s may be private, gated (accept its terms on its page) or not exist, and %s",
			r, status.Host, status.Status, reason, kind, token)
	case http.StatusNotFound:
		return fmt.Errorf("hub: %s: %s has no such %s, or no revision %q of it (%s)%s; check the spelling", r, status.Host, kind,
			r.revision, status.Status, reason)
	}
	return fmt.Errorf("hub: %s: %s answers %s%s", r, address, status.Status, reason)
}
