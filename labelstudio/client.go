// Package labelstudio is a client of Label Studio's HTTP API, as far as annotating pairs of answers needs it: projects, tasks, annotations, webhooks.
package labelstudio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client speaks with one server. It is not for several goroutines at once.
type Client struct {
	url    string
	key    string
	access string // what a personal access token is exchanged for, until it is refused
	http   http.Client
}

// NewClient makes a client of a server's address with a user's key: a personal access token or a legacy token.
func NewClient(address, key string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the address of Label Studio is %q: want http://host… or https://host…", address)
	}
	return &Client{url: strings.TrimRight(address, "/"), key: key, http: http.Client{Timeout: time.Minute}}, nil
}

// Temporary is an error that may be gone the next time: no connection, no answer, or one of the statuses 408, 429 and 5xx. Whether the request was carried
// out is not known.
type Temporary struct{ error }

// Unwrap returns the error itself.
func (t Temporary) Unwrap() error { return t.error }

// IsTemporary reports whether an error is one.
func IsTemporary(err error) bool {
	var t Temporary
	return errors.As(err, &t)
}

// maxAnswer bounds an answer, bytes.
const maxAnswer = 256 << 20

// do makes a request and decodes the answer into out, unless that is nil. A personal access token that has run out is exchanged anew, once.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	status, body, err := c.authorized(ctx, method, path, in)
	if status == http.StatusUnauthorized && c.access != "" {
		c.access = ""
		status, body, err = c.authorized(ctx, method, path, in)
	}
	if err == nil {
		err = refusal(status, body)
	}
	if err == nil && out != nil {
		if err = json.Unmarshal(body, out); err != nil {
			err = fmt.Errorf("%w: %s", err, start(body))
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s%s: %w", method, c.url, path, err)
	}
	return nil
}

// refusal is the error that a status means.
func refusal(status int, body []byte) error {
	err := fmt.Errorf("%d %s: %s", status, http.StatusText(status), start(body))
	switch {
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500:
		return Temporary{err}
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%w: is the key right? Account & Settings in Label Studio shows it", err)
	case status >= 300:
		return err
	}
	return nil
}

// authorized makes a request with the user's key.
func (c *Client) authorized(ctx context.Context, method, path string, in any) (int, []byte, error) {
	header := "Token " + c.key
	if isPersonal(c.key) {
		if c.access == "" {
			if err := c.exchange(ctx); err != nil {
				return 0, nil, err
			}
		}
		header = "Bearer " + c.access
	}
	return c.send(ctx, method, path, header, in)
}

// isPersonal tells a personal access token, which is a JSON web token, from a legacy one, which is hexadecimal.
func isPersonal(key string) bool { return strings.Count(key, ".") == 2 }

// exchange gets a token for requests for the personal access token.
func (c *Client) exchange(ctx context.Context) error {
	status, body, err := c.send(ctx, http.MethodPost, "/api/token/refresh", "", map[string]string{"refresh": c.key})
	if err == nil {
		err = refusal(status, body)
	}
	var out struct{ Access string }
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err == nil && out.Access == "" {
		err = errors.New("no access token was given for the personal access token")
	}
	c.access = out.Access
	return err
}

// send makes one request.
func (c *Client) send(ctx context.Context, method, path, authorization string, in any) (status int, body []byte, err error) {
	var text io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return 0, nil, err
		}
		text = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, text)
	if err != nil {
		return 0, nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, lost(ctx, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, lost(ctx, err)
	}
	return resp.StatusCode, body, nil
}

// lost is why there is no answer: because the caller did not wait for it, or something that may pass.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return Temporary{err}
}

// start is the beginning of a text, on one line.
func start(text []byte) string {
	return strings.Join(strings.Fields(string(text[:min(len(text), 300)])), " ")
}
