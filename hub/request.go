package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// unreachable marks errors after which a cached copy may serve.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// do sends a request, again and again with growing pauses while the network or the server fails, and turns refusals into
// errors that say what to do. from > 0 asks for the rest of a file from that byte on.
func (c *client) do(ctx context.Context, r repository, method, address string, from int64) (*http.Response, error) {
	pause := c.backoff
	for attempt := 1; ; attempt++ {
		response, err := c.once(ctx, r, method, address, from)
		var again temporary
		if err == nil || !errors.As(err, &again) {
			return response, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if attempt == attempts {
			return nil, unreachable{fmt.Errorf("hub: %s: %w (tried %d times)", r, again.error, attempts)}
		}
		if err := sleep(ctx, max(pause, again.after)); err != nil {
			return nil, err
		}
		pause *= 2
	}
}

// temporary marks failures that may pass; after is how long the server asks to wait.
type temporary struct {
	error
	after time.Duration
}

func (c *client) once(ctx context.Context, r repository, method, address string, from int64) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	request.Header.Set("User-Agent", "trinity-go")
	request.Header.Set("Accept-Encoding", "identity") // lengths and ranges are of the file itself
	if c.token != "" && !r.modelScope {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if from > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, temporary{error: err}
	}
	if response.StatusCode/100 == 2 || response.StatusCode/100 == 3 && method == http.MethodHead || response.StatusCode == http.StatusRequestedRangeNotSatisfiable && from > 0 {
		return response, nil
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 1<<16) // so that the connection can be used again
	if code := response.StatusCode; code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout {
		return nil, temporary{fmt.Errorf("%s answers %s", address, response.Status), retryAfter(response)}
	}
	return nil, c.refusal(r, address, response)
}

func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, 5*time.Minute)
}

// refusal explains an answer that another attempt would not change.
func (c *client) refusal(r repository, address string, response *http.Response) error {
	reason := response.Header.Get("X-Error-Message")
	if reason != "" {
		reason = ": " + reason
	}
	token := "HF_TOKEN is not set"
	if c.token != "" {
		token = "the token in HF_TOKEN does not allow it"
	}
	kind := strings.TrimSuffix(r.kind(), "s")
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		if r.modelScope {
			return fmt.Errorf("hub: %s: %s refuses (%s)%s; the %s may be private or not exist", r, response.Request.URL.Host, response.Status, reason, kind)
		}
		return fmt.Errorf("hub: %s: %s refuses (%s)%s; the %s may be private, gated (accept its terms on its page) or not exist, and %s",
			r, response.Request.URL.Host, response.Status, reason, kind, token)
	case http.StatusNotFound:
		return fmt.Errorf("hub: %s: %s has no such %s, or no revision %q of it (%s)%s; check the spelling", r, response.Request.URL.Host, kind, r.revision, response.Status, reason)
	}
	return fmt.Errorf("hub: %s: %s answers %s%s", r, address, response.Status, reason)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
