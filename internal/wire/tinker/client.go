package tinker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// Client is a session with a service. It retries as the SDK does.
type Client struct {
	Service  string // its address, for people
	ChunkLen int    // data of a request for passes, as the service asks
	Bytes    int    // of such a request
	SeedBits int    // of a seed of samples: services of others may refuse more than 63

	root    string
	key     string
	http    *http.Client
	say     func(string)
	pace    pace
	billing time.Duration // how long a call waits for a bill to be paid
	session string
	models  atomic.Int64
	samples atomic.Int64
	end     context.CancelFunc
	beating sync.WaitGroup
}

// Hosted is the service that clients call unless they are told another address.
const Hosted = "https://tinker.thinkingmachines.dev/services/tinker-prod"

// The environment that the SDK reads.
const (
	addressVariable = "TINKER_BASE_URL"
	keyVariable     = "TINKER_API_KEY"
)

// Address returns the address of a service, without /api/v1: the given one, the environment's, or that of the hosted service.
func Address(given string) (string, error) {
	text := cmp.Or(given, os.Getenv(addressVariable), Hosted)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return "", errors.New("it is not the address of a service: want http://HOST:PORT or https://…, without user, password and query; " +
			keyVariable + " holds the key")
	}
	return strings.TrimSuffix(strings.TrimRight(u.String(), "/"), "/api/v1"), nil
}

// localKey is sent to a service of this machine, which may ask for none.
const localKey = "tml-local"

// keyFor returns the key of the environment.
func keyFor(address string) (string, error) {
	if key := os.Getenv(keyVariable); key != "" {
		return key, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return localKey, nil
	}
	return "", fmt.Errorf("%s asks for a key: set %s", address, keyVariable)
}

// pace is how long a client waits.
type pace struct {
	first, last time.Duration // between two tries, at first and at most
	poll        time.Duration // between two questions for a result that is not there, at least
	bill        time.Duration // between two tries while a bill is not paid
	lost        time.Duration // without an answer, until the service is lost
	beat        time.Duration // between two signs of life
}

// What the SDK waits for answers.
const (
	callTime = time.Minute
	pollTime = 45 * time.Second // to a question for a result, which a service holds for 40 s
	restTime = 10 * time.Second // to a call that may fail
)

// Open begins a session with the service at an address that [Address] has returned. A service that does not answer for patience
// is lost. say receives what the service tells its users.
func Open(ctx context.Context, address string, patience time.Duration, say func(string)) (*Client, error) {
	return open(ctx, address, pace{
		first: 500 * time.Millisecond, last: 10 * time.Second, poll: time.Second, bill: 5 * time.Second, lost: patience, beat: 10 * time.Second,
	}, say)
}

func open(ctx context.Context, address string, pace pace, say func(string)) (*Client, error) {
	key, err := keyFor(address)
	if err != nil {
		return nil, err
	}
	c := &Client{Service: address, root: address + "/api/v1/", key: key, say: say, pace: pace, http: &http.Client{
		Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 10 {
				return http.ErrUseLastResponse
			}
			if r.URL.Host != via[0].URL.Host {
				r.Header.Del(keyHeader)
			}
			return nil
		},
	}}
	var flags struct {
		ChunkLen int     `json:"fwdbwd_max_chunk_len"`
		Bytes    int     `json:"fwdbwd_max_chunk_bytes_count"`
		Billing  float64 `json:"billing_exception_max_pause_duration_sec"`
		SeedBits int     `json:"seed_bits"` // this project's own
	}
	flags.Billing, flags.SeedBits = time.Hour.Seconds(), 63
	if err := c.call(ctx, "client/config", map[string]string{"sdk_version": sdkVersion}, &flags); err != nil {
		return nil, err
	}
	c.ChunkLen, c.Bytes = cmp.Or(max(0, flags.ChunkLen), 1024), cmp.Or(max(0, flags.Bytes), 5_000_000)
	c.SeedBits = min(max(1, flags.SeedBits), 64)
	c.billing = time.Duration(min(max(0, flags.Billing), 24*time.Hour.Seconds()) * float64(time.Second))
	var s Session
	begin := CreateSession{Tags: []string{"trinity"}, UserMetadata: map[string]any{}, SDKVersion: sdkVersion, Type: "create_session"}
	if err := c.call(ctx, "create_session", begin, &s); err != nil {
		return nil, err
	}
	if s.SessionID == "" {
		return nil, fmt.Errorf("%s: it began no session", c.Service)
	}
	c.session = s.SessionID
	for _, message := range []*string{s.InfoMessage, s.WarningMessage, s.ErrorMessage} {
		if message != nil && *message != "" {
			c.tell(*message)
		}
	}
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	c.end = end
	c.beating.Go(func() { c.live(living) })
	return c, nil
}

// sdkVersion is the version of the SDK whose wire format this package has.
const sdkVersion = "0.38.0"

const keyHeader = "X-API-Key"

// tell passes a message of the service on.
func (c *Client) tell(message string) {
	c.say(fmt.Sprintf("the service at %s: %s", c.Service, c.hidden(retry.OneLine([]byte(message)))))
}

// hidden returns a text without the key, which a server might repeat.
func (c *Client) hidden(text string) string {
	if c.key == localKey {
		return text
	}
	return strings.ReplaceAll(text, c.key, "***")
}

// live tells the service that the client lives.
func (c *Client) live(ctx context.Context) {
	ticker := time.NewTicker(c.pace.beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, err := c.client(restTime, 0).Do(ctx, c.request("session_heartbeat", map[string]string{
			"session_id": c.session, "type": "session_heartbeat",
		}))
		if statusOf(err) == http.StatusGone { // the session has ended, as the next call will say
			return
		}
	}
}

// Close ends the session.
func (c *Client) Close() error {
	c.end()
	c.beating.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), restTime)
	defer cancel()
	_, err := c.client(restTime, 1).Do(ctx, c.request("sessions/"+url.PathEscape(c.session)+"/finish", map[string]any{
		"reason": map[string]string{"type": "success"}, "detail": nil,
	}))
	c.http.CloseIdleConnections()
	if retry.IsTemporary(err) || statusOf(err) == http.StatusNotFound { // it ends by itself
		return nil
	}
	return c.named(err)
}

func statusOf(err error) int {
	if refused := (*retry.StatusError)(nil); errors.As(err, &refused) {
		return refused.Code
	}
	return 0
}

// named returns an error that names the service, and not its key.
func (c *Client) named(err error) error {
	if err == nil {
		return nil
	}
	return &serviceError{text: fmt.Sprintf("the service at %s: %s", c.Service, c.hidden(err.Error())), cause: err}
}

// serviceError is an error of a call. Its text names the service.
type serviceError struct {
	text  string
	cause error
}

func (e *serviceError) Error() string { return e.text }
func (e *serviceError) Unwrap() error { return e.cause }

// IsLost reports whether an error means that the service, or what it had of the session, is gone: the run may begin another
// session, and resume from a checkpoint.
func IsLost(err error) bool {
	code := statusOf(err)
	return retry.IsTemporary(err) || code == http.StatusGone || code == http.StatusNotFound
}

// client returns what sends a call, with a limit for each try.
func (c *Client) client(limit time.Duration, retries int) *retry.Client {
	return &retry.Client{
		HTTP: c.http, Timeout: limit, Retries: retries, Pause: c.pace.first, MaxPause: c.pace.last, MaxBody: maxAnswer, MayPass: mayPass,
	}
}

// maxAnswer bounds the bytes of an answer.
const maxAnswer = 1 << 30

// mayPass reports whether the SDK repeats a call after a status.
func mayPass(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return code >= 500
}

// request returns a call. in becomes JSON, unless it is a message already.
func (c *Client) request(path string, in any) retry.Request {
	r := retry.Request{Method: http.MethodPost, URL: c.root + path, Header: http.Header{}}
	r.Header.Set(keyHeader, c.key)
	r.Header.Set("Content-Type", "application/json")
	switch in := in.(type) {
	case []byte:
		r.Body = in
		r.Header.Set("Content-Type", protobufType)
	default:
		r.Body, _ = json.Marshal(in) // a struct of this package, or a map of texts
	}
	return r
}

const protobufType = "application/x-protobuf"

// call makes a call and decodes its answer.
func (c *Client) call(ctx context.Context, path string, in, out any) error {
	reply, err := c.persist(ctx, c.request(path, in), c.client(callTime, 1<<20))
	if err == nil {
		if wrong := json.Unmarshal(reply.Body, out); wrong != nil {
			err = fmt.Errorf("%s: the answer is not the JSON that was expected: %w", path, wrong)
		}
	}
	return c.named(err)
}

// persist sends a request until it is answered. A service that answers nothing for some minutes is lost.
func (c *Client) persist(ctx context.Context, r retry.Request, client *retry.Client) (*retry.Reply, error) {
	var unpaid time.Time
	for {
		limited, cancel := context.WithTimeout(ctx, c.pace.lost)
		reply, err := client.Do(limited, r)
		isLate := limited.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isLate:
			return nil, retry.Temporary(fmt.Errorf("it has not answered for %v: %w", c.pace.lost, err))
		case statusOf(err) != http.StatusPaymentRequired:
			return reply, err
		}
		if unpaid.IsZero() {
			unpaid = time.Now()
			c.tell("it waits for a bill to be paid: " + err.Error())
		}
		if time.Since(unpaid) > c.billing {
			return nil, fmt.Errorf("no bill was paid for %v: %w", c.billing, err)
		}
		if err := pause(ctx, c.pace.bill); err != nil {
			return nil, err
		}
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// submit makes a call that is computed later, and returns its result.
func (c *Client) submit(ctx context.Context, path string, in any) (*retry.Reply, error) {
	var s Submitted
	if err := c.call(ctx, path, in, &s); err != nil {
		return nil, err
	}
	if s.RequestID == "" {
		return nil, c.named(fmt.Errorf("%s: the answer has no request_id", path))
	}
	return c.await(ctx, path, s.RequestID)
}

// decided makes a call that is computed later, and decodes its result.
func (c *Client) decided(ctx context.Context, path string, in, out any) error {
	reply, err := c.submit(ctx, path, in)
	if err != nil {
		return err
	}
	return c.named(json.Unmarshal(reply.Body, out))
}

// failure is the result of a call that has failed.
type failure struct{ call, text, category string }

func (f *failure) Error() string { return f.call + ": " + f.text }

// await asks for a result until it is there.
func (c *Client) await(ctx context.Context, path, id string) (*retry.Reply, error) {
	client := c.client(pollTime, 1<<20)
	r := c.request("retrieve_future", RetrieveFuture{RequestID: id})
	r.Accept = func(code int) bool { return code == http.StatusOK || code == http.StatusRequestTimeout }
	told := ""
	for {
		begun := time.Now()
		reply, err := c.persist(ctx, r, client)
		if err != nil {
			return nil, c.named(fmt.Errorf("%s: %w", path, err))
		}
		if strings.HasPrefix(reply.Header.Get("Content-Type"), protobufType) {
			return reply, nil
		}
		var state struct {
			TryAgain
			Failed
		}
		if bytes.HasPrefix(bytes.TrimSpace(reply.Body), []byte("{")) {
			if err := json.Unmarshal(reply.Body, &state); err != nil {
				return nil, c.named(fmt.Errorf("%s: %w", path, err))
			}
		}
		switch {
		case state.Error != "":
			return nil, c.named(&failure{path, state.Error, state.Category})
		case state.Type != "try_again":
			return reply, nil
		}
		if why := cmp.Or(state.QueueStateReason, paused[state.QueueState]); why != "" && why != told {
			told = why
			c.tell(fmt.Sprintf("%s waits: %s", path, why))
		}
		if rest := c.pace.poll - time.Since(begun); rest > 0 { // it does not hold its answers
			if err := pause(ctx, rest); err != nil {
				return nil, err
			}
		}
	}
}

// paused says why a queue is paused.
var paused = map[string]string{
	"paused_capacity": "the service has no capacity now", "paused_rate_limit": "it has had more requests than it takes of this client",
}
