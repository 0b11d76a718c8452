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
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/weights"
)

var (
	failRequest = failpoint.New("remote.request") // before a client sends a request
	failReplied = failpoint.New("remote.replied") // when the reply begins to arrive
)

// Client is the explorer's side: a trinity.Sink, and the weights.Trainer of a Follower. The trainer
// runs in another process.
type Client struct {
	Name      string        // of the explorer, unlike those of all others
	Style     string        // synchronizer.sync_style, as the trainer's
	Algorithm string        // algorithm.algorithm_type, as the trainer's: explorers compute advantages
	Share     Share         // of the rows
	Rows      string        // identifies the rows that the share is of: equal for explorers with the same tasksets
	Stage     string        // of the run; the trainer may not have reached it yet
	Timeout   time.Duration // synchronizer.sync_timeout: how long a request waits for the trainer
	Place     Place
	Dir       string       // of the explorer's run: the trainer's trace is there, or it gets the spans
	Say       func(string) // receives lines for people; nil is nobody

	http    http.Client
	session string
	spans   outbox
	shown   map[string]bool // digests of images that the trainer has; Put alone uses it

	joins     sync.Mutex // one at a time
	mu        sync.Mutex // guards:
	lease     time.Duration
	epoch     int   // how often the client has joined
	delivered int64 // number of the last delivery that the trainer acknowledged
	paused    int64
	reached   time.Time // when the trainer last replied
	away      time.Time // since when the trainer does not reply; zero while it does
	reported  bool      // Say has received that
}

// NewClient returns a client that has not joined yet.
func NewClient(name, style string, timeout time.Duration, place Place) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 8
	return &Client{
		Name: name, Style: style, Timeout: timeout, Place: place, Share: Share{1, 1},
		session: rand.Text(), http: http.Client{Transport: transport}, spans: newOutbox(),
		shown: map[string]bool{},
	}
}

// errNothingYet says that nothing has happened while the trainer held a request.
var errNothingYet = errors.New("nothing has happened yet")

// limited returns a context that ends when the client has waited long enough for the trainer.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("synchronizer.sync_timeout of %v passed", c.Timeout))
}

// persist calls try until the trainer has replied. It joins again if the trainer does not know the
// explorer, because somebody started the trainer again. what names the request in errors.
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
			return c.timeoutError(ctx, what, last)
		}
		switch {
		case errors.Is(err, errNothingYet):
			pause, last = shortest, nil
			c.answered()
		case retry.IsTemporary(err):
			last = err
			c.missed(what, err)
			c.Place.wait(ctx, pause)
			pause = min(2*pause, longest)
		default:
			return err
		}
	}
}

// reportAfter is how long a process waits for another one before it reports that: the other
// process may be about to start, or to end.
const reportAfter = 3 * time.Second

// missed reports, once, that the trainer does not reply.
func (c *Client) missed(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away.IsZero() {
		c.away = time.Now()
	}
	if c.reported || c.Say == nil || time.Since(c.away) < reportAfter {
		return
	}
	c.reported = true
	c.Say(fmt.Sprintf("the trainer of %s does not %s: %v; explorer %s retries until synchronizer.sync_timeout of %v has passed",
		c.Place, what, err, c.Name, c.Timeout))
}

// answered notes that the trainer has replied. If missed has reported the trainer as away, answered
// reports that it is back.
func (c *Client) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached = time.Now(); c.reported {
		c.Say(fmt.Sprintf("the trainer of %s is there again, after %v", c.Place, time.Since(c.away).Round(time.Second)))
	}
	c.away, c.reported = time.Time{}, false
}

// timeoutError returns the error of a wait that ctx has ended. last is why the trainer could not be
// reached, nil if it could.
func (c *Client) timeoutError(ctx context.Context, what string, last error) error {
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
func (c *Client) request(ctx context.Context, server address, method, path string, body []byte, out any) error {
	resp, err := c.send(ctx, server, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return retry.Temporary(err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("trainer at %s: its reply of %d bytes to %s %s is not the JSON of a trainer (%w): is this its URL?",
			server.URL, len(data), method, path, err)
	}
	return nil
}

// send sends body and returns the reply if its status is 200.
func (c *Client) send(ctx context.Context, server address, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, server.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+server.Token)
	req.Header.Set(sessionHeader, c.session)
	if err := failRequest.Hit(""); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, retry.Temporary(err)
	}
	if err := failReplied.Hit(""); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	if resp.StatusCode == http.StatusOK {
		c.answered()
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusedBy(server, resp)
}

// refusedBy returns the error of a reply whose status is not 200.
func refusedBy(server address, resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRequest))
	if err != nil {
		return retry.Temporary(err)
	}
	var r refusal
	if json.Unmarshal(data, &r) != nil || r.Message == "" {
		r.Message = resp.Status
	}
	err = fmt.Errorf("trainer at %s: %s", server.URL, r.Message)
	switch resp.StatusCode {
	case http.StatusNoContent:
		return errNothingYet
	case http.StatusGone:
		return trinity.ErrEnded
	case http.StatusPreconditionFailed:
		return errNoSession
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: take the token from %s in the trainer's directory, or the value of TRINITY_TOKEN there", err, AddressFile)
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retry.Temporary(err)
	}
	return err
}

// path returns the path of a request of this explorer.
func (c *Client) path(rest string) string { return "/v1/explorers/" + url.PathEscape(c.Name) + rest }

// Try implements weights.Trainer.
func (c *Client) Try(ctx context.Context, what string, do func(ctx context.Context, from weights.Getter) error) error {
	return c.persist(ctx, what, func(ctx context.Context, at address) error { return do(ctx, getter{c, at}) })
}

// getter implements weights.Getter with the trainer at an address.
type getter struct {
	client *Client
	at     address
}

func (g getter) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := g.client.send(ctx, g.at, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (g getter) GetJSON(ctx context.Context, path string, out any) error {
	return g.client.request(ctx, g.at, http.MethodGet, path, nil, out)
}

// Loaded implements weights.Trainer.
func (c *Client) Loaded(ctx context.Context, v weights.Version) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.post(ctx, "/using", body)
}
