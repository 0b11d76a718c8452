package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// Resume implements trinity.Sink: it joins the trainer.
func (c *Client) Resume(ctx context.Context) (delivered int64, cursor json.RawMessage, err error) {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	err = c.persist(ctx, "let explorer "+c.Name+" join", func(ctx context.Context, at address) error {
		told, err := c.join(ctx, at)
		c.mu.Lock()
		defer c.mu.Unlock()
		delivered, cursor, c.delivered = told.Delivered, told.Cursor, told.Delivered
		return err
	})
	return delivered, cursor, err
}

// Put implements trinity.Sink. A delivery has a number: one of which the acknowledgement was lost is sent again, and is there once.
func (c *Client) Put(ctx context.Context, d trinity.Delivery) error {
	data, err := experience.AppendDelivery(nil, d)
	if err != nil {
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
		return c.settle(ctx, n, err)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered = n
	return nil
}

// settle finds out whether a delivery that was given up is there, and sees to it that it does not come after this: joining ends what was under way.
func (c *Client) settle(ctx context.Context, n int64, gaveUp error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	at, err := c.Place.address()
	if err != nil {
		return gaveUp
	}
	told, err := c.join(ctx, at)
	if err != nil {
		return gaveUp
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivered = told.Delivered; c.delivered < n {
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
	return c.tell(ctx, "/pause", body)
}

// Close implements trinity.Sink.
func (c *Client) Close() error {
	err := c.tell(c.Stop, "/close", nil)
	if errors.Is(err, trinity.ErrEnded) {
		return nil
	}
	return err
}

func (c *Client) tell(ctx context.Context, path string, body []byte) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.persist(ctx, "hear of the explorer", func(ctx context.Context, at address) error {
		return c.request(ctx, at, http.MethodPost, c.path(path), body, nil)
	})
}
