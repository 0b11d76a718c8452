// Package verify compares another engine with an exact one, the oracle. It reads records of the
// other engine from files, or asks an OpenAI-compatible server for them. Two questions decide: how
// far the log-probabilities differ from the oracle's, and whether the samples follow the oracle's
// distribution.
package verify

import "context"

// Oracle computes exact next-token distributions: the embedded engine.
type Oracle interface {
	// Distributions calls visit for each t in [from, len(tokens)], in order; from is at least 1.
	// The argument is the distribution of the token after tokens[:t]: log-probabilities [V] in nats
	// at temperature 1. The next call reuses the slice. An error of visit ends Distributions.
	Distributions(ctx context.Context, tokens []int32, from int, visit func(t int, logprobs []float32) error) error
}

// Record is one sequence with the figures that the other engine reported for it.
type Record struct {
	Tokens   []int32   // [T]
	Logprobs []float64 // [T] nats; NaN where the engine reported none; nil if it reported none at all
	Best     []int32   // [T] the most likely token at t according to the engine; -1 where unknown; nil if unknown everywhere

	// PromptLen is the number of tokens before the first token that the engine sampled; 0 means
	// that it sampled none.
	PromptLen   int
	Mask        []bool  // [T] true where the engine drew the token, always false before PromptLen; nil: it drew all tokens after that
	Temperature float64 // of the sampled tokens and of their log-probabilities; 0 means 1
	TopP        float64 // of the nucleus that the engine sampled from; 0 means 1
	First       bool    // a reply of one token: only the test of first tokens uses it
	Selected    bool    // the choice of replies depended on their content, or their sampling is unknown: no sample test uses it
	Place       string  // file and line, or the request, for messages
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

// Limits bound how far the other engine may differ from the oracle.
type Limits struct {
	Mean   float64 // of |difference of log-probabilities|, nats
	Max    float64 // the largest |difference|, nats; 0 means no bound
	Ratio  float64 // share of tokens whose ratio of probabilities is outside of [0.8, 1.25]
	Greedy float64 // least share of tokens at which the most likely tokens agree; a token within 2·Mean of the best one counts too
	// Significance is the probability that a correct engine fails any sample test, as χ² has it. In
	// simulations of few draws it was up to 2.8 times as large.
	Significance float64
}

// DefaultLimits returns limits for an engine that computes in bf16. SmolLM2-135M with transformers
// in bf16 differs by 0.05 nats on average.
func DefaultLimits() Limits {
	return Limits{Mean: 0.1, Ratio: 0.05, Greedy: 0.95, Significance: 0.001}
}
