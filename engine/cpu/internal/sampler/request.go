package sampler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
)

// ErrClosed is the error of requests after Close.
var ErrClosed = errors.New("sampler is closed")

// request is one call of Sample.
type request struct {
	id      int64
	prompt  []int32
	hash    uint64
	params  trinity.SamplingParams
	adapter *adapter
	length  int                    // most tokens of a completion
	stops   []int32                // tokens that end a completion
	bias    []trinity.TokenLogprob // params.LogitBias, by token
	tail    int                    // number of last tokens whose text may hold a stop string

	experts []byte // of the prompt's first tokens, which an earlier completion had; see trinity.Prompt

	admitted  int // completions that have become sequences
	remaining int // completions that are not done

	completions []trinity.Completion
	scores      *scores // of the prompt, if params.ScorePrompt asks for them
	err         error
	cancelled   atomic.Bool
	done        chan struct{} // closed when completions, or err, are final
}

// newRequest returns the request of a call of Sample. It is an error if the sampler cannot serve
// it.
func (s *Sampler) newRequest(tokens []int32, p trinity.SamplingParams) (*request, error) {
	p = normalised(p)
	if err := checkParams(p); err != nil {
		return nil, err
	}
	if len(p.Stop) > 0 && s.opts.Decode == nil {
		return nil, errors.New("sampler: the model has no tokenizer to look for stop strings: use stop tokens")
	}
	if len(tokens) == 0 {
		return nil, errors.New("sampler: the prompt is empty; give it at least one token, e.g. the beginning-of-sequence token")
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= s.cfg.VocabSize {
			return nil, fmt.Errorf("sampler: prompt token %d is %d; expected 0 to %d", i, t, s.cfg.VocabSize-1)
		}
	}
	room := s.opts.MaxModelLen - len(tokens)
	if room <= 0 {
		return nil, fmt.Errorf("sampler: the prompt has %d tokens and leaves no room in the model's length of %d", len(tokens), s.opts.MaxModelLen)
	}
	a, err := s.adapters.find(p.Adapter)
	if err != nil {
		return nil, err
	}
	r := &request{
		adapter: a, prompt: slices.Clone(tokens), hash: hashTokens(tokens), params: p, length: room, remaining: p.N,
		completions: make([]trinity.Completion, p.N), done: make(chan struct{}),
	}
	if p.MaxTokens > 0 {
		r.length = min(p.MaxTokens, room)
	}
	if need, have := pagesNeeded(len(tokens), r.length), pagesFor(s.opts.MaxTokens); need > have {
		return nil, fmt.Errorf("sampler: a prompt of %d tokens and a completion of up to %d need %d pages of %d tokens, of a K/V cache of %d: "+
			"lower the request's MaxTokens or raise the sampler's, which is %d", len(tokens), r.length, need, pageTokens, have, s.opts.MaxTokens)
	}
	r.params.PromptTargets = slices.Clone(p.PromptTargets)
	if r.scores, err = newScores(r.prompt, &r.params, s.cfg.VocabSize); err != nil {
		return nil, err
	}
	for _, token := range slices.Sorted(maps.Keys(p.LogitBias)) {
		if token < 0 || int(token) >= s.cfg.VocabSize {
			return nil, fmt.Errorf("sampler: logit_bias of token %d; expected 0 to %d", token, s.cfg.VocabSize-1)
		}
		r.bias = append(r.bias, trinity.TokenLogprob{Token: token, Logprob: p.LogitBias[token]})
	}
	r.stops = stopTokens(p, s.cfg.EOS, s.cfg.VocabSize)
	for _, stop := range p.Stop {
		r.tail = max(r.tail, len(stop)+utf8.UTFMax)
	}
	return r, nil
}

// pagesNeeded returns the most pages that one completion takes. It copies the prompt's last page
// unless that is full.
func pagesNeeded(prompt, completion int) int {
	copied := 0
	if prompt%pageTokens > 0 {
		copied = 1
	}
	return max(pagesFor(prompt)+copied, pagesFor(prompt+completion))
}

// normalised replaces zero values by their meaning.
func normalised(p trinity.SamplingParams) trinity.SamplingParams {
	if p.N == 0 {
		p.N = 1
	}
	if p.TopP == 0 {
		p.TopP = 1
	}
	if p.RepetitionPenalty == 0 {
		p.RepetitionPenalty = 1
	}
	return p
}

// maxCompletions bounds the completions of a request, because newRequest allocates room for all.
const maxCompletions = 1 << 16

// checkParams reports every parameter outside its range.
func checkParams(p trinity.SamplingParams) error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("sampler: "+format, args...))
		}
	}
	demand(p.N > 0 && p.N <= maxCompletions, "N is %d; expected 1 to %d completions", p.N, maxCompletions)
	demand(p.Temperature == 0 || p.Temperature >= 1e-4 && p.Temperature <= 1e4, "temperature is %v; expected 0 (greedy) or 0.0001 to 10000", p.Temperature)
	demand(p.TopP > 0 && p.TopP <= 1, "top_p is %v; expected above 0, at most 1", p.TopP)
	demand(p.MinP >= 0 && p.MinP <= 1, "min_p is %v; expected 0 to 1", p.MinP)
	demand(p.RepetitionPenalty > 0 && p.RepetitionPenalty <= 1e4, "repetition_penalty is %v; expected above 0, at most 10000", p.RepetitionPenalty)
	demand(p.PresencePenalty >= -2 && p.PresencePenalty <= 2, "presence_penalty is %v; expected -2 to 2", p.PresencePenalty)
	demand(p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2, "frequency_penalty is %v; expected -2 to 2", p.FrequencyPenalty)
	for token, bias := range p.LogitBias {
		demand(bias >= -100 && bias <= 100, "logit_bias of token %d is %v; expected -100 to 100", token, bias)
	}
	demand(p.MaxTokens >= 0, "max_tokens is %d; expected 0 (no limit) or more", p.MaxTokens)
	demand(p.MinTokens >= 0, "min_tokens is %d; expected 0 or more", p.MinTokens)
	const most = trinity.MaxTopLogprobs
	demand(p.TopLogprobs >= 0 && p.TopLogprobs <= most, "top_logprobs is %d; expected 0 to %d", p.TopLogprobs, most)
	demand(!slices.Contains(p.Stop, ""), "an empty stop string would end every completion at once")
	return errors.Join(errs...)
}

// stopTokens returns the tokens that end a completion: the model's and the request's. IgnoreEOS
// removes the model's, even if the request names them, as a renderer's defaults do. Tokens outside
// the model's vocabulary, which only the tokenizer knows, are left out.
func stopTokens(p trinity.SamplingParams, eos []int32, vocab int) []int32 {
	var stops []int32
	for _, t := range p.StopTokens {
		if !p.IgnoreEOS || !slices.Contains(eos, t) {
			stops = append(stops, t)
		}
	}
	if !p.IgnoreEOS {
		stops = append(stops, eos...)
	}
	stops = slices.DeleteFunc(stops, func(t int32) bool { return t < 0 || int(t) >= vocab })
	slices.Sort(stops)
	return slices.Compact(stops)
}

// name says which request an error is about.
func (r *request) name() string {
	return fmt.Sprintf("request %d (prompt of %d tokens, %d completions)", r.id, len(r.prompt), len(r.completions))
}

// fail ends the request with an error. The scheduler, or whoever still holds the request alone,
// calls it.
func (r *request) fail(err error) {
	if r.failed() {
		return
	}
	r.err = fmt.Errorf("sampler: %s: %w", r.name(), err)
	close(r.done)
}

func (r *request) failed() bool { return r.err != nil }

// wait returns the completions of a queued request. If ctx is cancelled, it waits until the
// scheduler has dropped the request, at most one step, so that OnToken is never called after Sample
// returns.
func (r *request) wait(ctx context.Context, b *inbox) ([]trinity.Completion, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		b.cancel(r)
		<-r.done
		if errors.Is(r.err, errCancelled) {
			return nil, fmt.Errorf("sampler: %s: %w", r.name(), context.Cause(ctx))
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.completions, nil
}

// errCancelled marks a request whose context is done.
var errCancelled = errors.New("cancelled")

// stopped reports whether the newest token of a completion completes a stop string. It compares the
// text of the last tokens with and without the newest one.
func (r *request) stopped(tokens []int32, decode func([]int32) string) bool {
	window := tokens[max(0, len(tokens)-r.tail):]
	text := decode(window)
	before := strings.TrimRight(decode(window[:len(window)-1]), string(utf8.RuneError))
	return slices.ContainsFunc(r.params.Stop, func(stop string) bool {
		return strings.Contains(text[max(0, len(before)-len(stop)+1):], stop) // the newest token is part of it
	})
}

// hashTokens returns the FNV-1a hash of the tokens.
func hashTokens(tokens []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	return h
}
