package served

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// kind is a kind of server.
type kind interface {
	// greet asks a server who it is. It is called until the server answers.
	greet(ctx context.Context, client *openai.Client) (endpoint, error)
}

// endpoint is one server, as its kind speaks to it. Its methods are called concurrently.
type endpoint interface {
	about() about
	// tokenize encodes a text without special tokens.
	tokenize(ctx context.Context, text string) ([]int32, error)
	// sample asks for one continuation.
	sample(ctx context.Context, q *query) (*answer, error)
	// load replaces the server's weights by those of a directory that the server sees, and calls them
	// name. Requests wait meanwhile. A server that is asleep has memory for the weights alone.
	load(ctx context.Context, dir, name string, asleep bool) error
	// has reports whether the server has the weights, or the adapter, called name.
	has(ctx context.Context, name string) (bool, error)
	// release drops the adapters that the sampler gave the server, if the server still answers.
	release(ctx context.Context)
}

// about says who answers.
type about struct {
	product string // with its version
	length  int    // tokens of the longest sequence; 0 if the server does not tell
	noLoRA  string // why it takes no adapter; "" if it takes them, or does not tell
	rank    int    // the largest of an adapter; 0 if the server does not tell
	flags   flags
}

// flags say what brings what a server lacks.
type flags struct {
	ids, logprobs, temperature string
}

// query asks for one continuation of a prompt.
type query struct {
	trinity.SamplingParams // N is 1, MaxTokens is set
	prompt                 []int32
	images                 []trinity.PromptImage
	collapsed              []int32 // prompt with one token for each image
	eos                    []int32 // of the model
	adapter                bool    // the policy is an adapter
	other                  string  // adapter on the server that the request names; "" for the policy and the base
	told                   int     // tokens that OnToken has got
	routed                 bool    // the server is to return the experts of each token, from place routedFrom
	routedFrom             int
	experts                []byte // of the places before it
}

// tell passes tokens on that OnToken has not got yet.
func (q *query) tell(a *answer) {
	so := trinity.Completion{Tokens: a.tokens, Logprobs: a.logprobs, TopLogprobs: a.top}
	for ; q.OnToken != nil && q.told < len(a.tokens); q.told++ {
		q.OnToken(0, so.At(q.told))
	}
}

// stops returns the tokens that end a reply beside the model's own.
func (q *query) stops() []int32 {
	var stops []int32
	for _, t := range q.StopTokens {
		if t >= 0 && !slices.Contains(q.eos, t) {
			stops = append(stops, t)
		}
	}
	return stops
}

// answer is a continuation as a server gave it.
type answer struct {
	tokens    []int32
	logprobs  []float32 // nil if the server gave none
	top       [][]trinity.TokenLogprob
	finish    string
	prompt    []int32  // that the server read; nil if it does not tell
	promptLen int      // tokens that the server read; 0 if it does not tell
	reused    int      // tokens of the prompt that the server had computed before
	weights   []string // names of the weights that sampled the tokens; nil if the server does not tell
	last      bool     // weights has those of the last token alone
	routed    string   // experts of the tokens, in base64; "" if the server gave none
	bare      bool     // routed is an array without a header
}

// place adds the log-probability of a token to an answer, with the most likely tokens at its place if n of
// them were asked for.
func (a *answer) place(token int32, logprob float32, likely []trinity.TokenLogprob, n int) error {
	if i := len(a.logprobs); i < len(a.tokens) && token >= 0 && token != a.tokens[i] {
		return wrongf("it returned token %d with the log-probability of token %d", a.tokens[i], token)
	}
	a.logprobs = append(a.logprobs, logprob)
	if n > 0 {
		a.top = append(a.top, mostLikely(likely, n))
	}
	return nil
}

// nats returns a log-probability, NaN for nil. A server that has computed none leaves it out, or writes
// null: that must not be read as 0, the log-probability of a certain token.
func nats(logprob *float32) float32 {
	if logprob == nil {
		return float32(math.NaN())
	}
	return *logprob
}

// wrong is an answer that no correct server gives. It is no use to ask again.
type wrong struct{ error }

func wrongf(format string, args ...any) error { return wrong{fmt.Errorf(format, args...)} }
