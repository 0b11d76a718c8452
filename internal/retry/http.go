package retry

import (
	"bytes"
	"cmp"
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

// Client sends HTTP requests. It retries failures that may pass, and bounds time and size. The zero
// Client sends a request once.
type Client struct {
	HTTP     *http.Client        // nil is http.DefaultClient
	Name     string              // of the server, for errors; "" is the method and the URL without its query
	Timeout  time.Duration       // of one attempt of Do; 0 leaves it to the context
	Retries  int                 // after the first attempt
	Pause    time.Duration       // before the first retry; it doubles up to MaxPause
	MaxPause time.Duration       // 0 is 30 s
	MaxBody  int64               // bytes of a reply that Do reads; 0 is 256 MiB
	MayPass  func(code int) bool // nil takes 408, 429 and 5xx for temporary
}

// Request is an HTTP request that may be sent several times.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	Accept      func(code int) bool // nil accepts 2xx
}

// Reply is an accepted answer.
type Reply struct {
	Header http.Header
	Body   []byte
}

// StatusError is an answer that was not accepted.
type StatusError struct {
	Code    int
	Status  string // such as "404 Not Found"
	Host    string // that answered, after redirects
	Header  http.Header
	Message string // what the server says, in one line
}

// Error returns the status and the server's message.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return e.Status
	}
	return e.Status + ": " + e.Message
}

// temporary marks an error that may pass.
type temporary struct {
	error
	after time.Duration // the server's Retry-After; 0 if it sent none
}

func (t temporary) Unwrap() error { return t.error }

// ErrLate is in the error of an attempt that got no answer within the client's Timeout.
var ErrLate = errors.New("no answer within timeout")

// Temporary marks an error that may be gone the next time.
func Temporary(err error) error { return temporary{err, 0} }

// IsTemporary reports whether an error of a Client may be gone the next time: no connection, no
// answer in time, or a status that may pass. The server may have carried out the request.
func IsTemporary(err error) bool { return errors.As(err, new(temporary)) }

// After returns how long a server has asked to wait before the next attempt, 0 if it did not ask.
func After(err error) time.Duration {
	var t temporary
	errors.As(err, &t)
	return min(t.after, maxRetryAfter)
}

const (
	defaultMaxPause = 30 * time.Second
	defaultMaxBody  = 256 << 20
	maxRetryAfter   = 5 * time.Minute
	maxErrorBody    = 1 << 20
	errorBodyWait   = 10 * time.Second
)

// JSON sends in as JSON, or nothing if it is nil, and decodes the answer into out unless that is
// nil.
func (c *Client) JSON(ctx context.Context, r Request, in, out any) error {
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return err
		}
		header := http.Header{"Content-Type": {"application/json"}}
		for k, v := range r.Header {
			header[k] = v
		}
		r.Header, r.Body = header, body
	}
	reply, err := c.Do(ctx, r)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(reply.Body, out); err != nil {
		return fmt.Errorf("%s: the answer is not the JSON that was expected: %w: %s", c.name(r), err, OneLine(reply.Body))
	}
	return nil
}

// Do sends the request until an answer is accepted, and returns the whole answer.
func (c *Client) Do(ctx context.Context, r Request) (reply *Reply, err error) {
	err = c.persist(ctx, r, func() error {
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if c.Timeout > 0 {
			late := fmt.Errorf("%w = %g s", ErrLate, c.Timeout.Seconds())
			attempt, cancel = context.WithTimeoutCause(ctx, c.Timeout, late)
		}
		defer cancel()
		response, err := c.once(attempt, r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		most := cmp.Or(c.MaxBody, defaultMaxBody)
		body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
		if err != nil {
			return Temporary(because(attempt, err))
		}
		if int64(len(body)) > most {
			return fmt.Errorf("answered more than %d MiB", most>>20)
		}
		reply = &Reply{response.Header, body}
		return nil
	})
	return reply, err
}

// Open sends the request until an answer is accepted, and returns it with its body unread. Timeout
// and MaxBody do not apply.
func (c *Client) Open(ctx context.Context, r Request) (response *http.Response, err error) {
	err = c.persist(ctx, r, func() error {
		response, err = c.once(ctx, r)
		return err
	})
	return response, err
}

// persist calls try until it succeeds, fails for good, or has used up the retries.
func (c *Client) persist(ctx context.Context, r Request, try func() error) error {
	most := cmp.Or(c.MaxPause, defaultMaxPause)
	pause := min(c.Pause, most)
	attempts, err := persist(ctx, try, func(attempt int, err error) (time.Duration, error) {
		var again temporary
		if !errors.As(err, &again) || attempt > c.Retries {
			return 0, err
		}
		wait := cmp.Or(min(again.after, maxRetryAfter), pause)
		pause = min(2*pause, most)
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return 0, fmt.Errorf("no time is left for the next attempt in %v: %w", wait, err)
		}
		return wait, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", c.name(r), context.Cause(ctx))
	case c.Retries > 0:
		return fmt.Errorf("%s, attempt %d: %w", c.name(r), attempts, err)
	}
	return fmt.Errorf("%s: %w", c.name(r), err)
}

// once sends the request and returns an accepted answer.
func (c *Client) once(ctx context.Context, r Request) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, withoutURL(err)
	}
	for k, v := range r.Header {
		request.Header[k] = v
	}
	response, err := cmp.Or(c.HTTP, http.DefaultClient).Do(request)
	if err != nil {
		return nil, Temporary(because(ctx, withoutURL(err)))
	}
	code := response.StatusCode
	if r.Accept != nil && r.Accept(code) || r.Accept == nil && code/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	defer time.AfterFunc(errorBodyWait, func() { response.Body.Close() }).Stop()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) // the status says enough
	refusal := &StatusError{code, response.Status, response.Request.URL.Host, response.Header, message(body)}
	mayPass := c.MayPass
	if mayPass == nil {
		mayPass = temporaryStatus
	}
	if mayPass(code) {
		return nil, temporary{refusal, retryAfter(response.Header)}
	}
	return nil, refusal
}

// temporaryStatus reports whether a status may be gone the next time.
func temporaryStatus(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500
}

// name returns the server's name for errors.
func (c *Client) name(r Request) string {
	if c.Name != "" {
		return c.Name
	}
	return r.String()
}

// String returns the method and the URL without user, password and query, which may be secrets.
func (r Request) String() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return r.Method
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return r.Method + " " + u.String()
}

// because returns the context's cause once it has ended, else err.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// withoutURL returns the error within a *url.Error: the name says where, and the URL may hold
// secrets.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter returns how long the server asks to wait, 0 if it does not ask.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// message returns the error text of a body in the forms that servers use: {"error": {"message":
// …}}, {"error": …}, {"message": …}, {"detail": …}, or any text.
func message(body []byte) string {
	var form struct {
		Error           json.RawMessage `json:"error"`
		Message, Detail string
	}
	if json.Unmarshal(body, &form) != nil {
		return OneLine(body)
	}
	var inner struct{ Message string }
	var text string
	switch {
	case json.Unmarshal(form.Error, &inner) == nil && inner.Message != "":
		return OneLine([]byte(inner.Message))
	case json.Unmarshal(form.Error, &text) == nil && text != "":
		return OneLine([]byte(text))
	case form.Message != "":
		return OneLine([]byte(form.Message))
	case form.Detail != "":
		return OneLine([]byte(form.Detail))
	}
	return OneLine(body)
}

// OneLine returns a text in one line, its middle cut out where it is long: some servers begin with
// what went wrong, others, such as those with Python tracebacks, end with it.
func OneLine(text []byte) string {
	const half = 300
	line := strings.Join(strings.Fields(string(text)), " ")
	if len(line) > 2*half {
		line = strings.ToValidUTF8(line[:half]+" … "+line[len(line)-half:], "")
	}
	return line
}
