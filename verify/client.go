package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// client speaks to an OpenAI-compatible server.
type client struct {
	base    string // ends in /v1
	key     string
	timeout time.Duration // of one request
	pause   time.Duration // before the first retry
	http    *http.Client
}

const (
	maxAnswer  = 256 << 20        // bytes
	attempts   = 4                // of a request
	maxPause   = 30 * time.Second // that a server may ask for between two of them
	firstPause = 500 * time.Millisecond
)

func newClient(base, key string, timeout time.Duration) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a server: want http://HOST:PORT or https://…", base)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1") + "/v1"
	u.RawQuery, u.Fragment = "", ""
	return &client{base: u.String(), key: key, timeout: timeout, pause: firstPause, http: &http.Client{}}, nil
}

// statusError is an answer that is not a success.
type statusError struct {
	code    int
	message string
	after   time.Duration // that the server asks to wait
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.code, e.message)
}

// refused reports whether the server understood a request and will not serve it, so that another form of it may be tried.
func refused(err error) bool {
	var status *statusError
	return errors.As(err, &status) && (status.code == http.StatusBadRequest || status.code == http.StatusUnprocessableEntity ||
		status.code == http.StatusInternalServerError || status.code == http.StatusNotImplemented)
}

// call sends body as JSON, or asks with GET if it is nil, and decodes the answer. Connections that fail, and servers that are busy or broken, are
// tried again.
func (c *client) call(ctx context.Context, path string, body, answer any) error {
	pause := c.pause
	for attempt := 1; ; attempt++ {
		err := c.once(ctx, path, body, answer)
		wait, again := retryAfter(err, pause)
		if !again || attempt == attempts || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("%s%s: %w", c.base, path, err)
			}
			return nil
		}
		pause *= 2
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// retryAfter says whether an error may pass, and how long to wait. A deadline has been waited for long enough.
func retryAfter(err error, pause time.Duration) (time.Duration, bool) {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, errAnswer) {
		return 0, false
	}
	var status *statusError
	if !errors.As(err, &status) {
		return pause, true // no connection
	}
	switch status.code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return min(max(pause, status.after), maxPause), true
	}
	return 0, false
}

// errAnswer is an answer that cannot be read.
var errAnswer = errors.New("the answer is not what an OpenAI-compatible server says")

func (c *client) once(ctx context.Context, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	method, payload := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return err
		}
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.late(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.late(err)
	case len(data) > maxAnswer:
		return fmt.Errorf("%w: it is longer than %d bytes", errAnswer, maxAnswer)
	case response.StatusCode != http.StatusOK:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // a date is rare: the usual pause serves
		return &statusError{code: response.StatusCode, message: serverMessage(data), after: time.Duration(seconds) * time.Second}
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%w: %w", errAnswer, err)
	}
	return nil
}

// late names the deadline that an error is about.
func (c *client) late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v (--timeout): %w", c.timeout, context.DeadlineExceeded)
	}
	return err
}

// serverMessage is the message of an error in the forms that servers have, in one line.
func serverMessage(data []byte) string {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	text := string(data)
	if json.Unmarshal(data, &body) == nil {
		switch {
		case json.Unmarshal(body.Error, &inner) == nil && inner.Message != "":
			text = inner.Message
		case json.Unmarshal(body.Error, &text) == nil:
		case body.Message != "":
			text = body.Message
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}
