package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// Options configure the questions to a server.
type Options struct {
	Model   string        // its name on the server; "" is the first model that the server lists
	Key     string        // "" sends none
	Timeout time.Duration // of one request
	Samples int           // draws for each prompt and setting, at least MinDraws; 0: draw nothing
	Encode  func(text string) []int32
	Decode  func(tokens []int32) string // Encode and Decode are nil without a tokenizer: then the server must accept and report token ids
	Stops   []int32                     // tokens that end a reply
}

// Answers are the answers of a server.
type Answers struct {
	Records  []*Record
	Used     []string // the model and the forms of request that served
	Warnings []string // facts that make the comparison weaker
}

const (
	replyTokens = 16 // tokens of a reply, greedy or drawn
	inFlight    = 4  // concurrent requests
)

// Ask asks a server for greedy replies, drawn replies, and the log-probabilities of the prompts if
// the server reports log-probabilities of given tokens. If the server refuses a form of a request,
// Ask tries a plainer one; Answers.Used lists the forms that served.
func Ask(ctx context.Context, base string, oracle Oracle, prompts [][]int32, o Options) (*Answers, error) {
	c, err := newClient(base, o.Key, o.Timeout)
	if err != nil {
		return nil, err
	}
	return ask(ctx, c, oracle, prompts, o)
}

func ask(ctx context.Context, c *client, oracle Oracle, prompts [][]int32, o Options) (*Answers, error) {
	p := &peer{client: c, opts: o, oracle: oracle, perRequest: 64}
	if err := p.greet(ctx, prompts[0]); err != nil {
		return nil, err
	}
	records, err := p.score(ctx, prompts)
	if err != nil {
		return nil, err
	}
	replies, err := p.replies(ctx, prompts)
	if err != nil {
		return nil, err
	}
	p.Records = append(records, replies...)
	if !slices.ContainsFunc(p.Records, func(r *Record) bool { return r.Logprobs != nil }) {
		what := "nor logprobs of sampled tokens"
		if o.Samples == 0 {
			what = "and with no samples there are no sampled tokens"
		}
		return nil, fmt.Errorf("%s reports no log-probabilities: neither prompt_logprobs, nor echo with logprobs, %s", c.BaseURL, what)
	}
	return &p.Answers, nil
}

// peer is a server with what Ask has found out about it.
type peer struct {
	Answers
	client *client
	opts   Options
	oracle Oracle
	model  string
	plain  bool // it refuses the extensions
	text   bool // it refuses token ids as prompts and gets text

	mu         sync.Mutex
	perRequest int   // the most completions that it returns for one request
	seeds      int64 // number of seeds used
}

func (p *peer) use(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.Used, what) {
		p.Used = append(p.Used, what)
	}
}

func (p *peer) warn(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.Warnings, what) {
		p.Warnings = append(p.Warnings, what)
	}
}

// greet asks for the model's name and finds the richest form of a request that the server accepts.
func (p *peer) greet(ctx context.Context, prompt []int32) error {
	if p.model = p.opts.Model; p.model == "" {
		var list openai.Models
		err := p.client.call(ctx, "/models", nil, &list)
		var status *retry.StatusError
		if err != nil && !(errors.As(err, &status) && status.Code == 404) {
			return err
		}
		if len(list.Data) > 0 {
			p.model = list.Data[0].ID
		}
	}
	var err error
	for _, form := range []struct{ plain, text bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		if p.plain, p.text = form.plain, form.text; p.text && p.opts.Decode == nil {
			break
		}
		if _, err = p.complete(ctx, p.request(prompt, 1, 1)); err == nil {
			p.describe()
			return nil
		}
		if !isRefused(err) {
			return err
		}
	}
	return err
}

func (p *peer) describe() {
	if p.model != "" {
		p.use("model " + p.model)
	}
	if p.plain {
		p.warn("the server refuses top_k, min_p and repetition_penalty: if it has defaults for them, its samples differ")
	}
	if p.text {
		p.warn("the server refuses token ids as prompts: it gets their text, and may tokenize it differently")
		return
	}
	p.use("prompts as token ids")
}

// request returns a request for n replies at temperature 1, with a seed of its own.
func (p *peer) request(prompt []int32, tokens, n int) *openai.Request {
	p.mu.Lock()
	p.seeds++
	seed := p.seeds << 12 // servers use consecutive seeds for the completions of a request
	p.mu.Unlock()
	one := float32(1)
	r := &openai.Request{
		Model: p.model, Prompt: raw(prompt), MaxTokens: &tokens, N: &n, Temperature: &one, TopP: &one, Seed: new(seed & math.MaxInt32),
	}
	if p.text {
		r.Prompt = raw(p.opts.Decode(prompt))
	}
	if !p.plain { // llama.cpp has defaults for top_k and min_p that leave out tokens
		r.TopK, r.MinP, r.RepetitionPenalty = new(-1), new(float32(0)), &one
		r.ReturnTokenIDs, r.ReturnTokensAsIDs = true, true
	}
	return r
}

// raw returns a text or token ids as JSON.
func raw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers have a form
	}
	return data
}

// oneLogprob asks for the log-probabilities of the sampled tokens.
var oneLogprob = json.RawMessage("1")

func (p *peer) complete(ctx context.Context, r *openai.Request) ([]openai.Choice, error) {
	var answer openai.Response
	if err := p.client.call(ctx, "/completions", r, &answer); err != nil {
		return nil, err
	}
	if len(answer.Choices) == 0 {
		return nil, fmt.Errorf("%w: there are no choices", errAnswer)
	}
	return answer.Choices, nil
}

// score asks for the log-probabilities of the prompts, in the first way that the server supports.
// It returns no records if the server supports none.
func (p *peer) score(ctx context.Context, prompts [][]int32) ([]*Record, error) {
	ways := []struct {
		name string
		ask  func(context.Context, []int32) (*Record, error)
	}{{"prompt_logprobs", p.promptLogprobs}, {"echo with logprobs", p.echo}}
	for _, way := range ways {
		first, err := way.ask(ctx, prompts[0])
		if err != nil && !isRefused(err) {
			return nil, err
		}
		if first == nil {
			continue
		}
		p.use(way.name)
		records := make([]*Record, len(prompts))
		records[0] = first
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(inFlight)
		for i, prompt := range prompts[1:] {
			g.Go(func() (err error) {
				if records[i+1], err = way.ask(ctx, prompt); err == nil && records[i+1] == nil {
					err = fmt.Errorf("%s returns %s for one prompt and not for another", p.client.BaseURL, way.name)
				}
				return err
			})
		}
		return records, g.Wait()
	}
	p.warn("the server does not report log-probabilities of given tokens: only those of sampled tokens are compared")
	return nil, nil
}

// promptLogprobs asks with the prompt_logprobs of vLLM. It returns nil if the server ignores them.
func (p *peer) promptLogprobs(ctx context.Context, prompt []int32) (*Record, error) {
	if p.plain || p.text {
		return nil, nil
	}
	r := p.request(prompt, 1, 1)
	r.PromptLogprobs = new(1)
	choices, err := p.complete(ctx, r)
	if err != nil || choices[0].PromptLogprobs == nil {
		return nil, err
	}
	record := &Record{Tokens: prompt, Place: "prompt_logprobs"}
	record.Logprobs, record.Best, err = scored(prompt, choices[0].PromptLogprobs)
	return record, err
}

// echo asks the server to repeat the prompt with its log-probabilities. It returns nil if the
// answer is not usable.
func (p *peer) echo(ctx context.Context, prompt []int32) (*Record, error) {
	r := p.request(prompt, 1, 1)
	r.Echo, r.Logprobs = true, oneLogprob
	choices, err := p.complete(ctx, r)
	if err != nil {
		return nil, err
	}
	l := choices[0].Logprobs
	if l == nil {
		return nil, nil
	}
	said, err := l.Sampled()
	if err != nil {
		return nil, err
	}
	n := len(prompt)
	if len(said.Names) < n || len(said.Names) > n+1 { // the server did not echo, or tokenized the text differently
		if len(said.Names) > 1 {
			p.warn(fmt.Sprintf("the server echoes %d tokens for %d: it tokenizes the prompt's text differently", len(said.Names), n))
		}
		return nil, nil
	}
	if said.IDs != nil && !slices.Equal(said.IDs[:n], prompt) {
		return nil, fmt.Errorf("%s echoes other tokens than the prompt's", p.client.BaseURL)
	}
	return &Record{Tokens: prompt, Logprobs: said.Logprobs[:n], Place: "echo"}, nil
}
