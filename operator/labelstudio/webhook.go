package labelstudio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/serve/web"
)

// Bell rings when a project gets annotations. It is a server with a webhook that Label Studio posts
// to.
type Bell struct {
	Rung   chan struct{} // has an element after a ring
	client *Client
	id     int                // of the webhook
	stop   context.CancelFunc // stops the server
	served <-chan error       // the server's error, once it has stopped
}

// bellPath is the prefix of the paths of all bells.
const bellPath = "/trinity-annotations/"

// HangBell registers a webhook for a project at an address that Label Studio can reach, such as
// 127.0.0.1:0 (any free port) if it runs on this machine. It removes webhooks that a killed process
// left.
func (c *Client) HangBell(ctx context.Context, project int, address string) (*Bell, error) {
	secret := rand.Text()
	listener, err := web.Listen(ctx, address, secret)
	if err != nil {
		return nil, err
	}
	path := bellPath + secret
	at := url.URL{Scheme: "http", Host: listener.Addr().String(), Path: path}
	id, err := c.register(ctx, project, at)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	b := &Bell{Rung: make(chan struct{}, 1), client: c, id: id, stop: stop, served: served}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, b.ring)
	server := &web.Server{Handler: mux, Read: time.Minute, Write: time.Minute}
	go func() { served <- server.Serve(serving, listener) }()
	return b, nil
}

func (b *Bell) ring(http.ResponseWriter, *http.Request) {
	select {
	case b.Rung <- struct{}{}:
	default: // nobody has taken the last ring yet
	}
}

// register removes old webhooks of the same host and adds the new one.
func (c *Client) register(ctx context.Context, project int, address url.URL) (id int, err error) {
	var hooks []struct {
		ID  int
		URL string
	}
	if err := c.do(ctx, http.MethodGet, fmt.Sprintf("/api/webhooks/?project=%d", project), nil, &hooks); err != nil {
		return 0, err
	}
	for _, h := range hooks {
		old, err := url.Parse(h.URL)
		if err == nil && old.Hostname() == address.Hostname() && strings.HasPrefix(old.Path, bellPath) {
			if err := c.remove(ctx, h.ID); err != nil {
				return 0, err
			}
		}
	}
	var made struct{ ID int }
	err = c.do(ctx, http.MethodPost, "/api/webhooks/", map[string]any{
		"project": project, "url": address.String(), "send_payload": false, "send_for_all_actions": false,
		"actions": []string{"ANNOTATION_CREATED", "ANNOTATION_UPDATED"},
	}, &made)
	return made.ID, err
}

func (c *Client) remove(ctx context.Context, webhook int) error {
	return c.do(ctx, http.MethodDelete, fmt.Sprintf("/api/webhooks/%d/", webhook), nil, nil)
}

// Close removes the webhook and stops the server. It also returns the error of a server that
// stopped before.
func (b *Bell) Close(ctx context.Context) error {
	err := b.client.remove(ctx, b.id)
	b.stop()
	return errors.Join(err, <-b.served)
}
