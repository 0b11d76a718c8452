// Package trinitytest holds fakes and conformance suites for tests of Trinity-Go and of plug-ins.
package trinitytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/trinity-go/trinity"
)

// Bandit is the smallest policy that learns: Weights holds one logit per token, independent of the
// context. It is a trainer and a sampler, so that tests of loops need no language model. It is
// exact, except that it ignores the gradient of entropies.
type Bandit struct {
	descent
	mu        sync.Mutex
	offered   snapshot
	sampled   snapshot
	reference []float64 // [V] logits

	// If SampleError is set, Sample returns its error unless that is nil.
	SampleError func(prompt []int32) error
}

// NewBandit returns a policy over v tokens with equal logits.
func NewBandit(v int) *Bandit {
	return &Bandit{descent: newDescent(v), offered: snapshot{make([]float64, v), 0}, sampled: snapshot{make([]float64, v), 0},
		reference: make([]float64, v)}
}

func logSoftmax(z []float64) []float64 {
	sum := 0.0
	for _, x := range z {
		sum += math.Exp(x)
	}
	out := make([]float64, len(z))
	for i, x := range z {
		out[i] = x - math.Log(sum)
	}
	return out
}

// Sample implements trinity.Sampler: one token per completion.
func (b *Bandit) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if b.SampleError != nil {
		if err := b.SampleError(prompt.Tokens); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	logp := logSoftmax(b.sampled.Logits)
	out := make([]trinity.Completion, max(1, p.N))
	for i := range out {
		u := rand.New(rand.NewPCG(p.Seed, uint64(i))).Float64()
		token := 0
		for ; token < len(logp)-1; token++ {
			if u -= math.Exp(logp[token]); u < 0 {
				break
			}
		}
		out[i] = trinity.Completion{
			Tokens: []int32{int32(token)}, Logprobs: []float32{float32(logp[token])}, FinishReason: "stop",
			Versions: [2]int64{b.sampled.Version, b.sampled.Version},
		}
		if p.TopLogprobs > 0 {
			out[i].TopLogprobs = [][]trinity.TokenLogprob{mostLikely(logp, p.TopLogprobs)}
		}
		if p.OnToken != nil {
			p.OnToken(i, out[i].At(0))
		}
		p.Tell(i, out[i].At(0))
	}
	return out, nil
}

// mostLikely returns the n most likely tokens.
func mostLikely(logp []float64, n int) (top []trinity.TokenLogprob) {
	for token, l := range logp {
		top = append(top, trinity.TokenLogprob{Token: int32(token), Logprob: float32(l)})
	}
	slices.SortStableFunc(top, func(a, b trinity.TokenLogprob) int { return cmp.Compare(b.Logprob, a.Logprob) })
	return top[:min(n, len(top))]
}

// stats returns the streams of a batch. A bandit has neither Value nor Divergence.
func stats(logits []float64, b *trinity.Batch, want trinity.Streams) []trinity.TokenStats {
	logp := logSoftmax(logits)
	entropy, discriminator := 0.0, 0.0
	for _, l := range logp {
		entropy -= math.Exp(l) * l
	}
	for _, l := range logp {
		discriminator += math.Exp(2*l) * (entropy + l)
	}
	out := make([]trinity.TokenStats, len(b.Experiences))
	for i, e := range b.Experiences {
		out[i].Logprob = along(e, targets(e), func(token int32) float64 { return logp[token] })
		if want.Entropy {
			out[i].Entropy = along(e, e.Tokens, func(int32) float64 { return entropy })
		}
		if want.Discriminator {
			out[i].Discriminator = along(e, e.Tokens, func(int32) float64 { return discriminator })
		}
	}
	return out
}

// along returns of(token) for each of some tokens, as many at each place of e; 0 where the mask is false.
func along(e *trinity.Experience, tokens []int32, of func(token int32) float64) []float32 {
	out := make([]float32, len(tokens))
	for i, token := range tokens {
		if e.Mask[i*len(e.Tokens)/len(tokens)] {
			out[i] = float32(of(token))
		}
	}
	return out
}

func targets(e *trinity.Experience) []int32 {
	if e.Targets != nil {
		return e.Targets
	}
	return e.Tokens
}

// Forward implements engine.Trainer.
func (b *Bandit) Forward(_ context.Context, batch *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	return b.score(b.Weights, batch, want)
}

// Reference implements engine.Trainer: the initial logits.
func (b *Bandit) Reference(_ context.Context, batch *trinity.Batch) ([]trinity.TokenStats, error) {
	return b.score(b.reference, batch, trinity.Streams{})
}

func (b *Bandit) score(logits []float64, batch *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if want.Value || want.Divergence.Kind != "" {
		return nil, errors.New("a bandit has no values and no teachers")
	}
	if err := b.check(batch); err != nil {
		return nil, err
	}
	return stats(logits, batch, want), nil
}

// ForwardBackward implements engine.Trainer.
func (b *Bandit) ForwardBackward(ctx context.Context, batch *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	now, err := b.Forward(ctx, batch, loss.Streams())
	if err != nil {
		return nil, err
	}
	grads, metrics, err := loss.Loss(batch, now)
	if err != nil {
		return nil, err
	}
	logp := logSoftmax(b.Weights)
	for i, e := range batch.Experiences {
		asked := targets(e)
		for t, g := range grads[i].Logprob {
			if !e.Mask[t*len(e.Tokens)/len(asked)] {
				continue
			}
			b.grad[asked[t]] += float64(g)
			for v := range b.grad {
				b.grad[v] -= float64(g) * math.Exp(logp[v])
			}
		}
	}
	return metrics, nil
}

// snapshot holds the logits [V] of a version.
type snapshot struct {
	Logits  []float64
	Version int64
}

// Offer implements engine.Publisher.
func (b *Bandit) Offer(_ context.Context, version int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered = snapshot{slices.Clone(b.Weights), version}
	return b.usable()
}

// Adopt implements engine.Publisher.
func (b *Bandit) Adopt(context.Context) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sampled = b.offered
	return b.sampled.Version, b.usable()
}

type banditState struct {
	Logits, Gradient []float64
	Offered          snapshot
}

// SaveState implements engine.Trainer.
func (b *Bandit) SaveState(_ context.Context, dir string) error {
	return b.save(dir, banditState{b.Weights, b.grad, b.offered})
}

// LoadState implements engine.Trainer.
func (b *Bandit) LoadState(_ context.Context, dir string) error {
	var s banditState
	if err := b.load(dir, &s); err != nil {
		return err
	}
	copy(b.Weights, s.Logits)
	copy(b.grad, s.Gradient)
	b.offered, b.sampled = s.Offered, s.Offered
	return nil
}

// SaveModel implements engine.Trainer.
func (b *Bandit) SaveModel(_ context.Context, dir string) error { return b.save(dir, b.Weights) }

// SavePublished implements engine.Publisher.
func (b *Bandit) SavePublished(_ context.Context, dir string) error {
	return b.save(dir, b.offered.Logits)
}

// LoadWeights implements weights.Loader. It reads the files of a bandit's SaveModel.
func (b *Bandit) LoadWeights(_ context.Context, dir string, version int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	logits := make([]float64, len(b.sampled.Logits))
	err := b.load(dir, &logits)
	b.sampled = snapshot{logits, version}
	return err
}

// PlainRenderer renders a chat as the bytes of its contents and decodes each token as its number.
type PlainRenderer struct{}

// Render implements trinity.Renderer.
func (PlainRenderer) Render(messages []trinity.Message, _ json.RawMessage, _ bool) ([]int32, error) {
	var tokens []int32
	for _, m := range messages {
		for _, c := range []byte(m.Content) {
			tokens = append(tokens, int32(c))
		}
	}
	return tokens, nil
}

// RenderTraining implements trinity.Renderer.
func (r PlainRenderer) RenderTraining(messages []trinity.Message, tools json.RawMessage, _ []bool) ([]int32, []bool, error) {
	tokens, err := r.Render(messages, tools, false)
	return tokens, make([]bool, len(tokens)), err
}

// Bridge implements trinity.Renderer.
func (r PlainRenderer) Bridge(_, more []trinity.Message, tools json.RawMessage, _ bool) ([]int32, error) {
	return r.Render(more, tools, true)
}

// Read implements trinity.Renderer.
func (r PlainRenderer) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return trinity.Message{Role: "assistant", Content: r.Decode(tokens)}, nil, nil
}

// ReadText implements trinity.Renderer.
func (r PlainRenderer) ReadText(tokens []int32) trinity.Message {
	return trinity.Message{Role: "assistant", Content: r.Decode(tokens)}
}

// Settled implements trinity.Renderer. The text of a reply ends with a bracket, so nothing is settled.
func (PlainRenderer) Settled([]int32, json.RawMessage) trinity.Message { return trinity.Message{} }

// Encode implements trinity.Renderer.
func (r PlainRenderer) Encode(text string) []int32 {
	tokens, _ := r.Render([]trinity.Message{{Content: text}}, nil, false)
	return tokens
}

// Decode implements trinity.Renderer.
func (PlainRenderer) Decode(tokens []int32) string { return fmt.Sprint(tokens) }

// StopTokens implements trinity.Renderer.
func (PlainRenderer) StopTokens() []int32 { return nil }
