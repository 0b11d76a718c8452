// Package trinitytest holds fakes and conformance suites for tests of Trinity-Go and of plug-ins.
package trinitytest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/trinity-go/trinity"
)

// Bandit is the smallest policy that really learns: one logit per token, whatever came before. It is an Engine and a Sampler at once, and
// exact, so that loops can be tested without a language model.
type Bandit struct {
	mu        sync.Mutex
	Logits    []float64 // [V], what is trained
	published []float64 // [V], what is sampled from
	version   int64
	reference []float64 // [V]
	grad      []float64 // [V]

	// SampleError, if set, is returned by Sample when it gives an error.
	SampleError func(prompt []int32) error
}

// NewBandit makes a policy of v tokens with equal logits.
func NewBandit(v int) *Bandit {
	return &Bandit{Logits: make([]float64, v), published: make([]float64, v), reference: make([]float64, v), grad: make([]float64, v)}
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
	logp := logSoftmax(b.published)
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
			Tokens: []int32{int32(token)}, Logprobs: []float32{float32(logp[token])}, FinishReason: "stop", Versions: [2]int64{b.version, b.version},
		}
		if p.OnToken != nil {
			p.OnToken(i, int32(token))
		}
	}
	return out, nil
}

func stats(logits []float64, b *trinity.Batch) []trinity.TokenStats {
	logp := logSoftmax(logits)
	entropy := 0.0
	for _, l := range logp {
		entropy -= math.Exp(l) * l
	}
	out := make([]trinity.TokenStats, len(b.Experiences))
	for i, e := range b.Experiences {
		out[i] = trinity.TokenStats{Logprob: make([]float32, len(e.Tokens)), Entropy: make([]float32, len(e.Tokens))}
		for t, tok := range e.Tokens {
			if e.Mask[t] {
				out[i].Logprob[t], out[i].Entropy[t] = float32(logp[tok]), float32(entropy)
			}
		}
	}
	return out
}

// Forward implements trinity.Engine.
func (b *Bandit) Forward(_ context.Context, batch *trinity.Batch, _ trinity.Streams) ([]trinity.TokenStats, error) {
	return stats(b.Logits, batch), nil
}

// Reference implements trinity.Engine: the initial logits.
func (b *Bandit) Reference(_ context.Context, batch *trinity.Batch) ([]trinity.TokenStats, error) {
	return stats(b.reference, batch), nil
}

// ForwardBackward implements trinity.Engine. The entropy's gradient is left out.
func (b *Bandit) ForwardBackward(_ context.Context, batch *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	grads, metrics, err := loss.Loss(batch, stats(b.Logits, batch))
	if err != nil {
		return nil, err
	}
	logp := logSoftmax(b.Logits)
	for i, e := range batch.Experiences {
		for t, g := range grads[i].Logprob {
			if !e.Mask[t] {
				continue
			}
			b.grad[e.Tokens[t]] += float64(g)
			for v := range b.grad {
				b.grad[v] -= float64(g) * math.Exp(logp[v])
			}
		}
	}
	return metrics, nil
}

// OptimStep implements trinity.Engine as plain gradient descent.
func (b *Bandit) OptimStep(_ context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	norm := 0.0
	for v, g := range b.grad {
		norm += g * g
		b.Logits[v] -= p.LR * g
		b.grad[v] = 0
	}
	return trinity.Metrics{"grad_norm": math.Sqrt(norm), "lr": p.LR}, nil
}

// Publish implements trinity.Engine.
func (b *Bandit) Publish(_ context.Context, version int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	copy(b.published, b.Logits)
	b.version = version
	return nil
}

type banditState struct {
	Logits, Published []float64
	Version           int64
}

// SaveState implements trinity.Engine.
func (b *Bandit) SaveState(_ context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(banditState{b.Logits, b.published, b.version})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bandit.json"), data, 0o644)
}

// LoadState implements trinity.Engine.
func (b *Bandit) LoadState(_ context.Context, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "bandit.json"))
	if err != nil {
		return err
	}
	var s banditState
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	copy(b.Logits, s.Logits)
	copy(b.published, s.Published)
	b.version = s.Version
	return nil
}

// SaveModel implements trinity.Engine.
func (b *Bandit) SaveModel(ctx context.Context, dir string) error { return b.SaveState(ctx, dir) }

// Close implements trinity.Engine.
func (b *Bandit) Close() error { return nil }

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
func (r PlainRenderer) RenderTraining(messages []trinity.Message, tools json.RawMessage) ([]int32, []bool, error) {
	tokens, err := r.Render(messages, tools, false)
	return tokens, make([]bool, len(tokens)), err
}

// Encode implements trinity.Renderer.
func (r PlainRenderer) Encode(text string) []int32 {
	tokens, _ := r.Render([]trinity.Message{{Content: text}}, nil, false)
	return tokens
}

// Decode implements trinity.Renderer.
func (PlainRenderer) Decode(tokens []int32) string { return fmt.Sprint(tokens) }

// StopTokens implements trinity.Renderer.
func (PlainRenderer) StopTokens() []int32 { return nil }
