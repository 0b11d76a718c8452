package fleet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
)

var (
	failRequest = failpoint.New("remote.request") // before an explorer asks for something
	failReplied = failpoint.New("remote.replied") // when the reply has begun
)

// Client is an explorer of another process than the trainer's.
type Client struct {
	Name      string        // of the explorer: each has another
	Style     string        // synchronizer.sync_style, the same as the trainer's
	Algorithm string        // algorithm.algorithm_type, the same as the trainer's: explorers compute advantages
	Share     Share         // of the rows, which it explores
	Rows      string        // which those are: equal of explorers with the same tasksets
	Stage     string        // of the run; the trainer may be at another yet
	Timeout   time.Duration // synchronizer.sync_timeout: how long a request waits for the trainer
	Place     Place
	Say       func(string)    // for people; nil is nobody
	Stop      context.Context // ends when the run is stopped: Close waits for the trainer no longer then

	http    http.Client
	session string

	joins     sync.Mutex // one at a time
	mu        sync.Mutex
	lease     time.Duration // 0 before the first time that it has joined
	epoch     int           // how often it has
	delivered int64         // number of the last delivery that was acknowledged
	paused    int64
	reached   time.Time // when the trainer last replied
	away      time.Time // since when it does not; zero while it does
	told      bool      // whether that was said
	using
}

// NewClient makes a client that has not joined yet.
func NewClient(name, style string, timeout time.Duration, place Place) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 8
	return &Client{Name: name, Style: style, Timeout: timeout, Place: place, Stop: context.Background(), Share: Share{1, 1}, session: rand.Text(), using: using{Version: -1}, http: http.Client{Transport: transport}}
}

// unreachable is an error that may pass: the trainer is not there, or not yet.
type unreachable struct{ error }

func (u unreachable) Unwrap() error { return u.error }

// limited bounds what an explorer waits for of the trainer.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("synchronizer.sync_timeout of %v passed", c.Timeout))
}

// persist tries until the trainer has replied, and joins again where it does not know the explorer any more, as after it was started again. what is said of a
// wait that was in vain.
func (c *Client) persist(ctx context.Context, what string, try func(ctx context.Context, at address) error) error {
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	pause := shortest
	var last error
	for {
		epoch := c.joinedTimes()
		at, err := c.Place.address()
		if err == nil {
			err = try(ctx, at)
		}
		if errors.Is(err, errNoSession) {
			err = c.rejoin(ctx, at, epoch)
			if err == nil {
				continue
			}
		}
		if ctx.Err() != nil && err != nil {
			return c.inVain(ctx, what, last)
		}
		switch passing := (unreachable{}); {
		case errors.Is(err, errWindow):
			pause, last = shortest, nil
			c.answered()
		case errors.As(err, &passing):
			last = err
			c.missed(what, err)
			c.Place.wait(ctx, pause)
			pause = min(2*pause, longest)
		default:
			return err
		}
	}
}

// unsaid is for how long another process may be waited for without a word: it may be about to come, or to end.
const unsaid = 3 * time.Second

// missed says, once, that the trainer does not reply.
func (c *Client) missed(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away.IsZero() {
		c.away = time.Now()
	}
	if c.told || c.Say == nil || time.Since(c.away) < unsaid {
		return
	}
	c.told = true
	c.Say(fmt.Sprintf("the trainer of %s does not %s: %v; explorer %s tries again until synchronizer.sync_timeout of %v has passed", c.Place, what, err, c.Name, c.Timeout))
}

// answered notes that the trainer has replied, and says so if it was missed.
func (c *Client) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached = time.Now(); c.told {
		c.Say(fmt.Sprintf("the trainer of %s is there again, after %v", c.Place, time.Since(c.away).Round(time.Second)))
	}
	c.away, c.told = time.Time{}, false
}

// inVain is the error of a wait that has ended; last is why the trainer could not be asked, nil if it could.
func (c *Client) inVain(ctx context.Context, what string, last error) error {
	c.mu.Lock()
	reached := "it was never reached"
	if !c.reached.IsZero() {
		reached = "it was last reached " + ago(c.reached)
	}
	c.mu.Unlock()
	if last != nil {
		reached += ": " + last.Error()
	}
	return fmt.Errorf("waiting for the trainer of %s to %s (%s): %w", c.Place, what, reached, context.Cause(ctx))
}

func (c *Client) joinedTimes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// request sends body, and decodes the reply into out unless that is nil.
func (c *Client) request(ctx context.Context, at address, method, path string, body []byte, out any) error {
	resp, err := c.send(ctx, at, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return unreachable{err}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("trainer at %s: its reply of %d bytes to %s %s is not the JSON of a trainer (%w): is this its URL?", at.URL, len(data), method, path, err)
	}
	return nil
}

// send returns the reply to a request that has succeeded.
func (c *Client) send(ctx context.Context, at address, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+at.Token)
	req.Header.Set(sessionHeader, c.session)
	if err := failRequest.Hit(""); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable{err}
	}
	if err := failReplied.Hit(""); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	if resp.StatusCode == http.StatusOK {
		c.answered()
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refused(at, resp)
}

// refused is what a reply says that is no success.
func (c *Client) refused(at address, resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRequest))
	if err != nil {
		return unreachable{err}
	}
	var r refusal
	if json.Unmarshal(data, &r) != nil || r.Message == "" {
		r.Message = resp.Status
	}
	err = fmt.Errorf("trainer at %s: %s", at.URL, r.Message)
	switch resp.StatusCode {
	case http.StatusNoContent:
		return errWindow
	case http.StatusGone:
		return trinity.ErrEnded
	case http.StatusPreconditionFailed:
		return errNoSession
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: take that of %s in its directory, or what TRINITY_TOKEN is there", err, AddressFile)
	case http.StatusNotFound, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unreachable{err}
	}
	return err
}

// path is that of a request of this explorer.
func (c *Client) path(rest string) string { return "/v1/explorers/" + url.PathEscape(c.Name) + rest }

// join joins as it did not yet, or again.
func (c *Client) join(ctx context.Context, at address) (joined, error) {
	host, err := os.Hostname()
	if err != nil {
		return joined{}, err
	}
	c.mu.Lock()
	body, err := json.Marshal(joining{Protocol: protocol, Style: c.Style, Algorithm: c.Algorithm, Host: host, PID: os.Getpid(), Session: c.session, Share: c.Share, Rows: c.Rows, Stage: c.Stage, Paused: c.paused, using: c.using})
	c.mu.Unlock()
	if err != nil {
		return joined{}, err
	}
	var told joined
	if err := c.request(ctx, at, http.MethodPost, c.path(""), body, &told); err != nil {
		return joined{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = told.Lease
	c.epoch++
	return told, nil
}

// rejoin joins a trainer that has forgotten the explorer, unless that has happened since epoch. What was acknowledged is still there, or the run is another.
func (c *Client) rejoin(ctx context.Context, at address, epoch int) error {
	c.joins.Lock()
	defer c.joins.Unlock()
	if c.joinedTimes() != epoch {
		return nil
	}
	c.mu.Lock()
	acknowledged := c.delivered // before it is asked: a Put beside this may go on as soon as it has joined
	c.mu.Unlock()
	told, err := c.join(ctx, at)
	if err != nil {
		return err
	}
	if told.Delivered < acknowledged {
		return fmt.Errorf("trainer at %s: it has %d deliveries of explorer %s, and has acknowledged %d: its run is another; start this explorer again", at.URL, told.Delivered, c.Name, acknowledged)
	}
	return nil
}

// Alive tells the trainer, again and again, that the explorer is there, until ctx is cancelled.
func (c *Client) Alive(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.persist(ctx, "hear of the explorer", func(ctx context.Context, at address) error {
			c.mu.Lock()
			lease := c.lease
			c.mu.Unlock()
			ctx, cancel := context.WithTimeout(ctx, max(lease, time.Second)) // a connection that hangs is given up
			defer cancel()
			return c.request(ctx, at, http.MethodPost, c.path("/alive"), nil, nil)
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
