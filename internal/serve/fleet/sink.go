package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// Resume implements trinity.Sink: it joins the trainer.
func (c *Client) Resume(ctx context.Context) (delivered int64, cursor json.RawMessage, err error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	err = c.persist(ctx, "let explorer "+c.Name+" join", func(ctx context.Context, at address) error {
		reply, err := c.join(ctx, at)
		c.mu.Lock()
		defer c.mu.Unlock()
		delivered, cursor, c.delivered = reply.Delivered, reply.Cursor, reply.Delivered
		return err
	})
	return delivered, cursor, err
}

// join sends a request to join.
func (c *Client) join(ctx context.Context, server address) (joinReply, error) {
	host, err := os.Hostname()
	if err != nil {
		return joinReply{}, err
	}
	c.mu.Lock()
	body, err := json.Marshal(joining{
		Protocol: protocol, Style: c.Style, Algorithm: c.Algorithm, Host: host, PID: os.Getpid(), Session: c.session,
		Share: c.Share, Rows: c.Rows, Stage: c.Stage, Paused: c.paused,
	})
	c.mu.Unlock()
	if err != nil {
		return joinReply{}, err
	}
	var reply joinReply
	sent := time.Now()
	if err := c.request(ctx, server, http.MethodPost, c.path(""), body, &reply); err != nil {
		return joinReply{}, err
	}
	c.spans.answered(sent, time.Now(), reply.timing)
	c.spans.joined(reply)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = reply.Lease
	c.epoch++
	return reply, nil
}

// rejoin joins a trainer that does not know the explorer, unless the client has joined since epoch.
// A trainer that has lost acknowledged deliveries belongs to another run.
func (c *Client) rejoin(ctx context.Context, server address, epoch int) error {
	c.joins.Lock()
	defer c.joins.Unlock()
	if c.joinedTimes() != epoch {
		return nil
	}
	c.mu.Lock()
	acknowledged := c.delivered // before joining, because a concurrent Put may continue as soon as the client has joined
	c.mu.Unlock()
	reply, err := c.join(ctx, server)
	if err != nil {
		return err
	}
	if reply.Delivered < acknowledged {
		return fmt.Errorf("trainer at %s: it has %d deliveries of explorer %s, and has acknowledged %d: "+
			"its run is another; start this explorer again", server.URL, reply.Delivered, c.Name, acknowledged)
	}
	return nil
}

// Alive tells the trainer again and again that the explorer is alive. It returns nil when ctx is
// cancelled or the trainer has ended.
func (c *Client) Alive(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.persist(ctx, "hear from the explorer", func(ctx context.Context, at address) error {
			c.mu.Lock()
			lease := c.lease
			c.mu.Unlock()
			ctx, cancel := context.WithTimeout(ctx, max(lease, time.Second)) // gives up a connection that hangs
			defer cancel()
			var reply timing
			sent := time.Now()
			err := c.request(ctx, at, http.MethodPost, c.path("/alive"), nil, &reply)
			if err == nil {
				c.spans.answered(sent, time.Now(), reply)
			}
			return err
		})
		switch {
		case ctx.Err() != nil, errors.Is(err, trinity.ErrEnded):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// Put implements trinity.Sink. A delivery has a number. If the client sends it again, because the
// acknowledgement was lost, the trainer does not add it again.
func (c *Client) Put(ctx context.Context, d trinity.Delivery) error {
	data, err := experience.AppendDelivery(nil, d)
	if err == nil && int64(len(data)) > maxDelivery {
		err = tooLarge(int64(len(data))) // a trainer that refuses it does not read it, so the reply may not arrive
	}
	if err != nil {
		return err
	}
	if err := c.putImages(ctx, d); err != nil {
		return err
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	c.mu.Lock()
	n := c.delivered + 1
	c.mu.Unlock()
	path := c.path(fmt.Sprintf("/deliveries/%d", n))
	err = c.persist(ctx, fmt.Sprintf("take delivery %d", n), func(ctx context.Context, at address) error {
		return c.request(ctx, at, http.MethodPut, path, data, nil)
	})
	if err != nil && ctx.Err() != nil {
		return c.confirm(ctx, n, err)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered = n
	select {
	case c.spans.wake <- struct{}{}:
	default: // the spans of the delivery before are on their way
	}
	return nil
}

// confirm finds out whether the trainer has a delivery that Put gave up. Joining ends requests in
// flight, so the delivery does not arrive later.
func (c *Client) confirm(ctx context.Context, n int64, gaveUp error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	at, err := c.Place.address()
	if err != nil {
		return gaveUp
	}
	reply, err := c.join(ctx, at)
	if err != nil {
		return gaveUp
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivered = reply.Delivered; c.delivered < n {
		return gaveUp
	}
	return nil
}

// Pause implements trinity.Sink.
func (c *Client) Pause(ctx context.Context, until int64) error {
	c.mu.Lock()
	before := c.paused
	c.paused = until
	c.mu.Unlock()
	if before == until {
		return nil
	}
	body, err := json.Marshal(pausing{until})
	if err != nil {
		return err
	}
	return c.post(ctx, "/pause", body)
}

// Close implements trinity.Sink. It waits for the trainer until ctx ends. The trainer may end then, so
// the last spans come first, if it takes them at once.
func (c *Client) Close(ctx context.Context) error {
	c.sendSpans(ctx)
	err := c.post(ctx, "/close", nil)
	if errors.Is(err, trinity.ErrEnded) {
		return nil
	}
	return err
}

// post sends a request of this explorer that has no reply.
func (c *Client) post(ctx context.Context, path string, body []byte) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.persist(ctx, "hear from the explorer", func(ctx context.Context, at address) error {
		return c.request(ctx, at, http.MethodPost, c.path(path), body, nil)
	})
}
