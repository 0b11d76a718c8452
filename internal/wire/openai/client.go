package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// Client sends requests to an OpenAI-compatible server.
type Client struct {
	BaseURL string              // such as http://127.0.0.1:8000/v1; "" is the environment's OPENAI_BASE_URL
	Key     string              // "" is the environment's OPENAI_API_KEY; NoKey for a server that checks none
	Timeout time.Duration       // of one attempt; 0 leaves it to the context
	Retries int                 // after the first attempt
	Pause   time.Duration       // before the first retry; 0 is a second
	MayPass func(code int) bool // statuses worth a retry; nil takes those that OpenAI's own clients retry
	HTTP    *http.Client        // nil is http.DefaultClient
}

// NoKey is the key for servers that check none. A client that has it does not send the environment's.
const NoKey = "EMPTY"

// maxReply bounds the bytes of a reply. That of 32,768 tokens with 20 likely tokens each has some 20 MiB.
const maxReply = 64 << 20

// Root returns the address of a server without /v1, below which its endpoints lie.
func Root(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not the address of a server: want http://HOST:PORT or https://…", address)
	}
	u.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1"), "/")
	u.RawQuery, u.Fragment = "", ""
	return u.String(), nil
}

// Address returns the URL of an endpoint: the endpoint itself if it is a URL, else its path below
// the base URL.
func (c *Client) Address(endpoint string) (string, error) {
	if strings.Contains(endpoint, "://") {
		return endpoint, nil
	}
	base := c.base()
	if _, err := Root(base); err != nil {
		return "", fmt.Errorf("no model server at %q: want an address such as http://127.0.0.1:8000/v1", base)
	}
	return strings.TrimRight(base, "/") + "/" + strings.TrimLeft(endpoint, "/"), nil
}

func (c *Client) base() string { return cmp.Or(c.BaseURL, os.Getenv("OPENAI_BASE_URL")) }

// Post sends a JSON body to a URL and returns the server's reply. It retries a request that got no
// connection, no reply in time, or a status that may pass.
func (c *Client) Post(ctx context.Context, address string, body []byte) ([]byte, error) {
	header := c.header()
	header.Set("Content-Type", "application/json")
	reply, err := c.retry().Do(ctx, retry.Request{Method: http.MethodPost, URL: address, Header: header, Body: body})
	if err != nil {
		return nil, err
	}
	return reply.Body, nil
}

// Call posts in as JSON to an endpoint, or gets the endpoint if in is nil. It decodes the reply into
// out unless that is nil. It retries like Post.
func (c *Client) Call(ctx context.Context, endpoint string, in, out any) error {
	address, err := c.Address(endpoint)
	if err != nil {
		return err
	}
	r := retry.Request{Method: http.MethodGet, URL: address, Header: c.header()}
	if in != nil {
		r.Method = http.MethodPost
	}
	return c.retry().JSON(ctx, r, in, out)
}

// Stream posts in as JSON to an endpoint and calls each with the data of every event of the reply. The
// error is temporary if the reply ends before its last event, [DONE].
func (c *Client) Stream(ctx context.Context, endpoint string, in any, each func(data []byte) error) error {
	address, err := c.Address(endpoint)
	if err != nil {
		return err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	header := c.header()
	header.Set("Content-Type", "application/json")
	reply, err := c.retry().Open(ctx, retry.Request{Method: http.MethodPost, URL: address, Header: header, Body: body})
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(reply.Body, maxReply))
	lines.Buffer(nil, maxReply)
	for lines.Scan() {
		data, is := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !is {
			continue
		}
		if string(data) == "[DONE]" {
			return nil
		}
		if err := each(data); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return retry.Temporary(fmt.Errorf("%s: the stream ended early: %w", endpoint, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)))
}

func (c *Client) header() http.Header {
	header := http.Header{}
	if key := cmp.Or(c.Key, os.Getenv("OPENAI_API_KEY")); key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return header
}

func (c *Client) retry() *retry.Client {
	client := &retry.Client{
		HTTP: c.HTTP, Timeout: c.Timeout, Retries: c.Retries, Pause: cmp.Or(c.Pause, time.Second), MaxBody: maxReply, MayPass: c.MayPass,
	}
	if client.MayPass == nil {
		client.MayPass = mayPass
	}
	return client
}

// mayPass reports whether a status is worth a retry. OpenAI's own clients retry the same statuses.
func mayPass(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return code >= 500
}
