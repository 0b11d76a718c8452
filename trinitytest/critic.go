package trinitytest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
)

// Critic is the smallest value function that really learns: one number per state, and a state is the token before. It is an Engine with a value
// head, and exact.
type Critic struct {
	Table []float64 // [V], what is trained: the value after each token
	grad  []float64 // [V]
}

// NewCritic makes a value function of states after v tokens, all of them 0.
func NewCritic(v int) *Critic { return &Critic{Table: make([]float64, v), grad: make([]float64, v)} }

var errNoLogprobs = errors.New("a critic has values and no log-probabilities")

// Forward implements trinity.Engine.
func (c *Critic) Forward(_ context.Context, batch *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if !want.Value || want.Entropy {
		return nil, errNoLogprobs
	}
	out := make([]trinity.TokenStats, len(batch.Experiences))
	for i, e := range batch.Experiences {
		out[i].Value = make([]float32, len(e.Tokens))
		for t, trained := range e.Mask {
			if trained {
				out[i].Value[t] = float32(c.Table[e.Tokens[t-1]])
			}
		}
	}
	return out, nil
}

// Reference implements trinity.Engine: there is none.
func (c *Critic) Reference(context.Context, *trinity.Batch) ([]trinity.TokenStats, error) {
	return nil, errNoLogprobs
}

// ForwardBackward implements trinity.Engine.
func (c *Critic) ForwardBackward(ctx context.Context, batch *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	now, err := c.Forward(ctx, batch, loss.Streams())
	if err != nil {
		return nil, err
	}
	grads, metrics, err := loss.Loss(batch, now)
	if err != nil {
		return nil, err
	}
	for i, e := range batch.Experiences {
		for t, g := range grads[i].Value {
			if e.Mask[t] {
				c.grad[e.Tokens[t-1]] += float64(g)
			}
		}
	}
	return metrics, nil
}

// OptimStep implements trinity.Engine as plain gradient descent.
func (c *Critic) OptimStep(_ context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	norm := 0.0
	for v, g := range c.grad {
		norm += g * g
		c.Table[v] -= p.LR * g
		c.grad[v] = 0
	}
	return trinity.Metrics{"grad_norm": math.Sqrt(norm), "lr": p.LR}, nil
}

// Publish implements trinity.Engine: nobody samples from a critic.
func (c *Critic) Publish(context.Context, int64) error { return nil }

// SaveState implements trinity.Engine.
func (c *Critic) SaveState(_ context.Context, dir string) error {
	data, err := json.Marshal(c.Table)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "critic.json"), data, 0o644)
}

// LoadState implements trinity.Engine.
func (c *Critic) LoadState(_ context.Context, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "critic.json"))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &c.Table)
}

// SaveModel implements trinity.Engine.
func (c *Critic) SaveModel(ctx context.Context, dir string) error { return c.SaveState(ctx, dir) }

// Close implements trinity.Engine.
func (c *Critic) Close() error { return nil }
