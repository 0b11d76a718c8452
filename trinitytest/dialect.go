package trinitytest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// DialectOptions say how clients of an API ask and what they read.
type DialectOptions struct {
	Path string // of a request, below the endpoint's URL
	// Body returns a request with the words of a user, and with more fields in JSON, such as `"stop":"x"`.
	Body func(words string, more ...string) string
	// Text returns the text of an answer, and Streamed that of the events of a stream.
	Text, Streamed func(answer string) string
	// Problem returns the message of an error, or "" if it has not the API's form.
	Problem func(answer string) string
	Stop    string            // field that ends a reply before "c"; "" if the API has none
	Tools   string            // field with a tool f; "" if the API has none
	Call    string            // what an answer has that calls f with {"a":1}
	Refused map[string]string // fields that ask for what a server cannot do, by their names
}

// Dialect tests what an endpoint must do in each API: it answers, streamed and not; a request that
// comes again has the same answer and is recorded once; it refuses by name what it cannot do; a client
// that goes away frees the sampler; and it tells keys that have ended from wrong ones, in the form of
// the API. open serves an endpoint for a model.
func Dialect(t *testing.T, o DialectOptions, open func(*testing.T, *trinity.Model, trinity.EndpointOptions) trinity.Endpoint) {
	begin := func(t *testing.T, limits trinity.EndpointOptions) *caller {
		c := &caller{t: t, o: o, policy: &quoting{}}
		params := trinity.SamplingParams{Temperature: 1}
		c.Endpoint = open(t, &trinity.Model{Sampler: c.policy, Renderer: CallingChat{}, MaxModelLen: 1000, Params: params}, limits)
		return c
	}
	none := trinity.EndpointOptions{}
	t.Run("answers", func(t *testing.T) {
		c := begin(t, none)
		c.wants(o.Body("say 'abcd'"), o.Text, "abcd")
		c.wants(o.Body("say 'streamed'", `"stream":true`), o.Streamed, "streamed")
		c.recorded(2)
	})
	t.Run("an answer that comes again", func(t *testing.T) {
		for _, again := range []http.Header{{"X-Stainless-Retry-Count": {"1"}}, {"Idempotency-Key": {"k"}}} {
			c := begin(t, none)
			for range 2 {
				c.header = again
				c.wants(o.Body("say 'abcd'"), o.Text, "abcd")
			}
			c.recorded(1)
		}
	})
	t.Run("stop", func(t *testing.T) {
		if o.Stop == "" {
			t.Skip("the API has none")
		}
		c := begin(t, none)
		c.wants(o.Body("say 'abcd'", o.Stop), o.Text, "ab")
		c.wants(o.Body("say 'abcd'", o.Stop, `"stream":true`), o.Streamed, "ab")
	})
	t.Run("tools", func(t *testing.T) {
		if o.Tools == "" {
			t.Skip("the API has none")
		}
		c := begin(t, none)
		if status, answer := c.ask(o.Body(`say 'hm!f{"a":1}'`, o.Tools)); status != http.StatusOK || !strings.Contains(answer, o.Call) {
			t.Errorf("%d %s, want %s", status, answer, o.Call)
		}
		c.recorded(1)
	})
	t.Run("what it cannot do", func(t *testing.T) {
		c := begin(t, none)
		for name, field := range o.Refused {
			c.refuses(o.Body("hi", field), http.StatusBadRequest, name)
		}
		c.refuses("{", http.StatusBadRequest, "")
		c.refuses(o.Body(strings.Repeat("long ", 300)), http.StatusBadRequest, "")
		c.recorded(0)
	})
	t.Run("a client that goes away", func(t *testing.T) {
		c := begin(t, none)
		begun, freed := make(chan struct{}), make(chan struct{})
		c.policy.wait = func(ctx context.Context) { close(begun); <-ctx.Done(); close(freed) }
		ctx, leave := context.WithCancel(t.Context())
		go func() { <-begun; leave() }()
		if _, _, err := c.send(ctx, o.Body("say 'abcd'")); err == nil {
			t.Error("an answer to nobody")
		}
		<-freed
		c.recorded(0)
	})
	t.Run("limits and keys", func(t *testing.T) {
		c := begin(t, trinity.EndpointOptions{MaxCalls: 1})
		c.wants(o.Body("say 'abcd'"), o.Text, "abcd")
		c.refuses(o.Body("say 'abcd'"), http.StatusTooManyRequests, "")
		c.key = "tr-wrong"
		c.refuses(o.Body("hi"), http.StatusUnauthorized, "")
		c.key = ""
		c.recorded(1)
		c.refuses(o.Body("hi"), http.StatusConflict, "")
	})
}

// caller is a client of an endpoint.
type caller struct {
	trinity.Endpoint
	t      *testing.T
	o      DialectOptions
	policy *quoting
	header http.Header
	key    string // in place of the endpoint's; "" is the endpoint's own
}

func (c *caller) send(ctx context.Context, body string) (status int, answer string, err error) {
	url := c.URL()
	if c.key != "" {
		url = strings.Replace(url, c.Key(), c.key, 1)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+c.o.Path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if c.header != nil {
		req.Header = c.header.Clone()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), errors.Join(err, resp.Body.Close())
}

func (c *caller) ask(body string) (status int, answer string) {
	c.t.Helper()
	status, answer, err := c.send(c.t.Context(), body)
	if err != nil {
		c.t.Fatal(err)
	}
	return status, answer
}

func (c *caller) wants(body string, read func(string) string, want string) {
	c.t.Helper()
	if status, answer := c.ask(body); status != http.StatusOK || read(answer) != want {
		c.t.Errorf("%s: %d %s, want %q", body, status, answer, want)
	}
}

// refuses wants an error in the API's form, whose message or field has a name.
func (c *caller) refuses(body string, want int, name string) {
	c.t.Helper()
	if status, answer := c.ask(body); status != want || c.o.Problem(answer) == "" || !strings.Contains(answer, name) {
		c.t.Errorf("%.200s: %d %s, want status %d and an error about %q in the form of the API", body, status, answer, want, name)
	}
}

// recorded closes the endpoint and wants so many replies.
func (c *caller) recorded(want int) {
	c.t.Helper()
	r, err := c.Close()
	if err != nil {
		c.t.Fatal(err)
	}
	if len(r.Experiences) != want {
		c.t.Errorf("%d replies are recorded, want %d", len(r.Experiences), want)
	}
	for _, e := range r.Experiences {
		if err := e.Check(); err != nil || e.TrainedTokens() == 0 {
			c.t.Errorf("%d trained tokens, %v", e.TrainedTokens(), err)
		}
	}
}

// quoting is a policy that says what the newest message has between quotes.
type quoting struct {
	wait func(context.Context) // before it answers; nil waits for nothing
}

// Sample implements [trinity.Sampler].
func (p *quoting) Sample(ctx context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	if p.wait != nil {
		p.wait(ctx)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	says := "nothing"
	if parts := strings.Split(CallingChat{}.Decode(prompt.Tokens), "'"); len(parts) > 2 {
		says = parts[len(parts)-2]
	}
	c := trinity.Completion{Tokens: append(CallingChat{}.Encode(says), ChatEnd), FinishReason: "stop"}
	c.Logprobs = make([]float32, len(c.Tokens))
	for i := range c.Tokens {
		if params.OnToken != nil {
			params.OnToken(0, c.At(i))
		}
		params.Tell(0, c.At(i))
	}
	return []trinity.Completion{c}, nil
}
