package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/internal/wire/openai"
)

const (
	drawnPrompts = 4   // prompts with drawn replies
	drawnReplies = 16  // whole replies to each of them
	sharpened    = 0.5 // the other temperature
)

// replies asks for a greedy reply to each prompt. For some prompts it asks for drawn replies too:
// whole replies at temperature 1, and many first tokens at temperature 1, at another temperature
// and from a nucleus.
func (p *peer) replies(ctx context.Context, prompts [][]int32) ([]*Record, error) {
	var jobs []func(context.Context) ([]*Record, error)
	for _, prompt := range prompts {
		jobs = append(jobs, func(ctx context.Context) ([]*Record, error) { return p.greedy(ctx, prompt) })
	}
	if p.opts.Samples > 0 {
		for _, prompt := range prompts[:min(drawnPrompts, len(prompts))] {
			topP, err := p.nucleus(ctx, prompt)
			if err != nil {
				return nil, err
			}
			for _, d := range []draw{
				{prompt, replyTokens, drawnReplies, 1, 1}, {prompt, 1, p.opts.Samples, 1, 1},
				{prompt, 1, p.opts.Samples, sharpened, 1}, {prompt, 1, p.opts.Samples, 1, topP},
			} {
				jobs = append(jobs, func(ctx context.Context) ([]*Record, error) { return p.draw(ctx, d) })
			}
		}
	}
	found := make([][]*Record, len(jobs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i, job := range jobs {
		g.Go(func() (err error) {
			found[i], err = job(ctx)
			return err
		})
	}
	err := g.Wait()
	return slices.Concat(found...), err
}

// nucleus returns a top_p for a prompt. It lies in the middle of the largest step of the cumulative
// probabilities between 0.2 and 0.9, so that rounding does not change the tokens of the nucleus.
func (p *peer) nucleus(ctx context.Context, prompt []int32) (topP float64, err error) {
	err = p.oracle.Distributions(ctx, prompt, len(prompt), func(_ int, logprobs []float32) error {
		probabilities := shaped(logprobs, 1, 1)
		sum, step := 0.0, 0.0
		for _, token := range byProbability(probabilities) {
			q := probabilities[token]
			if middle := sum + q/2; middle >= 0.2 && middle <= 0.9 && q > step {
				topP, step = middle, q
			}
			sum += q
		}
		return nil
	})
	return topP, err
}

// greedy asks for the greedy reply: each token is the most likely one after the tokens before it.
func (p *peer) greedy(ctx context.Context, prompt []int32) ([]*Record, error) {
	r := p.request(prompt, replyTokens, 1)
	r.Temperature, r.Logprobs = new(float32(0)), oneLogprob
	choices, err := p.replied(ctx, r)
	if err != nil {
		return nil, err
	}
	record, err := p.record(prompt, &choices[0])
	if err != nil || record == nil {
		return nil, err
	}
	record.Best = slices.Clone(record.Tokens)
	for t := range prompt {
		record.Best[t] = -1
	}
	record.PromptLen, record.Logprobs = 0, nil // at temperature 0 the meaning of log-probabilities depends on the server
	return []*Record{record}, nil
}

// draw asks for n replies to a prompt under one setting.
type draw struct {
	prompt            []int32
	tokens, n         int
	temperature, topP float64
}

func (p *peer) draw(ctx context.Context, d draw) ([]*Record, error) {
	var records []*Record
	dropped := false
	for got := 0; got < d.n; {
		p.mu.Lock()
		n := min(p.perRequest, d.n-got)
		p.mu.Unlock()
		r := p.request(d.prompt, d.tokens, n)
		r.Temperature, r.TopP, r.Logprobs = new(float32(d.temperature)), new(float32(d.topP)), oneLogprob
		choices, err := p.replied(ctx, r)
		if n > 1 && isRefused(err) {
			p.atOnce(1)
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(choices) < n {
			p.atOnce(len(choices))
		}
		got += len(choices)
		for i := range choices {
			record, err := p.record(d.prompt, &choices[i])
			if err != nil {
				return nil, err
			}
			if record == nil {
				dropped = true
				continue
			}
			record.Temperature, record.TopP = d.temperature, d.topP
			if record.First = d.tokens == 1; record.First {
				record.Logprobs = nil // the whole replies have log-probabilities to compare
			}
			records = append(records, record)
		}
	}
	for _, r := range records {
		r.Selected = dropped
	}
	return records, nil
}

// atOnce notes that the server returns n completions at most for a request.
func (p *peer) atOnce(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.perRequest = max(1, min(p.perRequest, n))
}

// replied asks with log-probabilities, and without if the server refuses them.
func (p *peer) replied(ctx context.Context, r *openai.Request) ([]openai.Choice, error) {
	choices, err := p.complete(ctx, r)
	if !isRefused(err) || *r.N > 1 {
		return choices, err
	}
	r.Logprobs = nil
	return p.complete(ctx, r)
}

// record returns the record of a reply, or nil if its tokens are unknown.
func (p *peer) record(prompt []int32, c *openai.Choice) (*Record, error) {
	said, err := c.Sampled()
	if err != nil {
		return nil, err
	}
	text, reason := "", ""
	if c.Text != nil {
		text = *c.Text
	}
	if c.FinishReason != nil {
		reason = *c.FinishReason
	}
	switch {
	case said.IDs != nil:
		p.use("token ids of replies")
	case text == "" && reason == "stop": // the first token ended the reply
		said = &openai.Sampled{}
	default:
		if said.IDs, err = p.retokenize(prompt, text); err != nil {
			return nil, err
		}
		if len(said.IDs) == 0 || said.Names != nil && len(said.Names) != len(said.IDs) {
			p.warn("replies whose text tokenizes to another number of tokens than the server sampled are left out, " +
				"and the samples of their prompts are not tested")
			return nil, nil
		}
	}
	values := said.Logprobs
	if len(values) > 0 {
		p.use("logprobs of sampled tokens")
	} else {
		values = slices.Repeat([]float64{math.NaN()}, len(said.IDs))
	}
	ids := said.IDs
	if reason == "stop" && len(p.opts.Stops) > 0 && (len(ids) == 0 || !slices.Contains(p.opts.Stops, ids[len(ids)-1])) {
		ids, values = append(slices.Clone(ids), p.opts.Stops[0]), append(slices.Clone(values), math.NaN())
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s: a completion has no tokens and did not stop (finish_reason %q)", p.client.BaseURL, reason)
	}
	record := &Record{Tokens: slices.Concat(prompt, ids), PromptLen: len(prompt), Place: "a reply"}
	if len(said.Logprobs) > 0 {
		record.Logprobs = append(slices.Repeat([]float64{math.NaN()}, len(prompt)), values...)
	}
	return record, nil
}

// retokenize tokenizes a reply's text; the tokens may differ from the sampled ones. It returns nil
// if the prompt's tokens differ.
func (p *peer) retokenize(prompt []int32, text string) ([]int32, error) {
	if p.opts.Encode == nil {
		return nil, fmt.Errorf("%s reports no token ids, and the model has no tokenizer for its text", p.client.BaseURL)
	}
	p.warn("the server reports no token ids: its text is tokenized again, and the tokens may differ from the sampled ones")
	whole := p.opts.Encode(p.opts.Decode(prompt) + text)
	if len(whole) < len(prompt) || !slices.Equal(whole[:len(prompt)], prompt) {
		return nil, nil // a token spans the end of the prompt
	}
	return whole[len(prompt):], nil
}
