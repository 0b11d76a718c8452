package trinitytest

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
)

// Critic is the smallest value function that learns: one number per state, and a state is the token
// before it. Weights holds the values after each token. It is an exact Engine with a value head.
type Critic struct{ descent }

// NewCritic returns a value function for the states after v tokens, all 0.
func NewCritic(v int) *Critic { return &Critic{newDescent(v)} }

var errNoLogprobs = errors.New("a critic has values and no log-probabilities")

// Forward implements engine.Trainer.
func (c *Critic) Forward(_ context.Context, batch *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if want != (trinity.Streams{Value: true}) {
		return nil, errNoLogprobs
	}
	if err := c.check(batch); err != nil {
		return nil, err
	}
	out := make([]trinity.TokenStats, len(batch.Experiences))
	for i, e := range batch.Experiences {
		out[i].Value = make([]float32, len(e.Tokens))
		for t, trained := range e.Mask {
			if trained {
				out[i].Value[t] = float32(c.Weights[e.Tokens[t-1]])
			}
		}
	}
	return out, nil
}

// Reference implements engine.Trainer. A critic has none.
func (c *Critic) Reference(context.Context, *trinity.Batch) ([]trinity.TokenStats, error) {
	return nil, errNoLogprobs
}

// ForwardBackward implements engine.Trainer.
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

// SaveState implements engine.Trainer.
func (c *Critic) SaveState(_ context.Context, dir string) error {
	return c.save(dir, [][]float64{c.Weights, c.grad})
}

// LoadState implements engine.Trainer.
func (c *Critic) LoadState(_ context.Context, dir string) error {
	return c.load(dir, &[]*[]float64{&c.Weights, &c.grad})
}

// SaveModel implements engine.Trainer.
func (c *Critic) SaveModel(_ context.Context, dir string) error { return c.save(dir, c.Weights) }
