// Package verify holds another engine's log-probabilities and samples against an exact one, the oracle: records of what the other engine said,
// read from files or asked from an OpenAI-compatible server, are judged by how far their log-probabilities are off and by whether their samples
// follow the oracle's distribution.
package verify

import "context"

// Oracle computes exact next-token distributions: the embedded engine.
type Oracle interface {
	// Distributions calls visit with the log-probabilities [V] in nats, at temperature 1, of the token after tokens[:t], for t in
	// [from, len(tokens)], in order; from is at least 1. The slice is reused. An error of visit ends the call.
	Distributions(ctx context.Context, tokens []int32, from int, visit func(t int, logprobs []float32) error) error
}

// Record is a sequence as the other engine saw it.
type Record struct {
	Tokens   []int32   // [T]
	Logprobs []float64 // [T] nats; NaN where the engine gave none; nil if it gave none at all
	Best     []int32   // [T] the token that the engine finds most likely in place of Tokens[t], -1 where it did not say; nil if nowhere

	// PromptLen is the number of tokens before the first that was sampled by the engine; 0 means that none was.
	PromptLen   int
	Mask        []bool  // [T] true where the engine drew the token, which it did not before PromptLen; nil means all from there on
	Temperature float64 // of the sampled tokens and of their log-probabilities; 0 means 1
	TopP        float64 // nucleus that was sampled from; 0 means 1
	First       bool    // one token was asked for: the test of first tokens takes it, and that of whole replies does not
	Selected    bool    // which replies became records depended on what was drawn, or how they were drawn is not known: no test takes it
	Place       string  // file and line or request, for messages
}

// sampled reports whether the engine drew tokens.
func (r *Record) sampled() bool { return r.PromptLen > 0 && r.PromptLen < len(r.Tokens) }

// drawn reports whether the engine drew token t.
func (r *Record) drawn(t int) bool {
	return r.sampled() && t >= r.PromptLen && (r.Mask == nil || r.Mask[t])
}

// surprising reports whether token t is part of the test of whole replies.
func (r *Record) surprising(t int) bool {
	return r.drawn(t) && r.topP() == 1 && !r.First && !r.Selected
}

func (r *Record) temperature() float64 {
	if r.Temperature == 0 {
		return 1
	}
	return r.Temperature
}

func (r *Record) topP() float64 {
	if r.TopP == 0 {
		return 1
	}
	return r.TopP
}

// Limits say how far the other engine may be off.
type Limits struct {
	Mean         float64 // of |difference of log-probabilities|, nats
	Max          float64 // the largest one, nats; 0 means any
	Ratio        float64 // share of tokens whose probabilities' ratio leaves [0.8, 1.25]
	Greedy       float64 // share of tokens at which the most likely token must be the same, or as likely within 2·Mean
	Significance float64 // of all tests of samples together: the chance that a right engine is called wrong
}

// DefaultLimits fit an engine that computes in bf16: transformers' SmolLM2-135M in bf16 is off by 0.05 nats on average.
func DefaultLimits() Limits {
	return Limits{Mean: 0.1, Ratio: 0.05, Greedy: 0.95, Significance: 0.001}
}
