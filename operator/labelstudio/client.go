// Package labelstudio is a client of Label Studio's HTTP API for annotating pairs of answers:
// projects, tasks, annotations and webhooks.
package labelstudio

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

// Client talks to one server. It is not safe for concurrent use.
type Client struct {
	url    string
	key    string
	access string // short-lived token for a personal access token; "" if there is none or it has expired
	http   retry.Client
}

// NewClient returns a client for a server's address with a user's key: a personal access token or a
// legacy token.
func NewClient(address, key string) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("address %q of Label Studio: want http://host… or https://host…", address)
	}
	return &Client{url: strings.TrimRight(address, "/"), key: key, http: retry.Client{Timeout: time.Minute}}, nil
}

// do sends a request with the user's key and decodes the answer into out unless out is nil. It
// exchanges an expired access token once.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	err := c.authorized(ctx, method, path, in, out)
	if isUnauthorized(err) && c.access != "" {
		c.access = ""
		err = c.authorized(ctx, method, path, in, out)
	}
	if isUnauthorized(err) {
		return fmt.Errorf("%w: check the key: Label Studio shows it under Account & Settings", err)
	}
	return err
}

func isUnauthorized(err error) bool {
	var status *retry.StatusError
	return errors.As(err, &status) && status.Code == http.StatusUnauthorized
}

// authorized sends a request with the user's key.
func (c *Client) authorized(ctx context.Context, method, path string, in, out any) error {
	header := "Token " + c.key
	if isPersonal(c.key) {
		if c.access == "" {
			if err := c.exchange(ctx); err != nil {
				return err
			}
		}
		header = "Bearer " + c.access
	}
	return c.http.JSON(ctx, retry.Request{Method: method, URL: c.url + path, Header: http.Header{"Authorization": {header}}}, in, out)
}

// isPersonal reports whether a key is a personal access token, which is a JSON web token, and not a
// legacy token, which is hexadecimal.
func isPersonal(key string) bool { return strings.Count(key, ".") == 2 }

// exchange gets an access token for the personal access token.
func (c *Client) exchange(ctx context.Context) error {
	var out struct{ Access string }
	err := c.http.JSON(ctx, retry.Request{Method: http.MethodPost, URL: c.url + "/api/token/refresh"},
		map[string]string{"refresh": c.key}, &out)
	if err == nil && out.Access == "" {
		err = errors.New("no access token from Label Studio for the personal access token")
	}
	c.access = out.Access
	return err
}
