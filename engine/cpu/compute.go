package cpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

var (
	errForwardOnly = errors.New("cpu: the engine was opened with Options.ForwardOnly: it has no gradient")
	errClosed      = errors.New("cpu: the engine is closed")
)

// Forward returns the streams of every experience under the current weights. It splits a batch that
// does not fit the planned memory and computes one part after another.
func (e *Engine) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if want.Score || e.opts.Score {
		return e.scores(ctx, b.Experiences, want)
	}
	return e.score(ctx, e.weights, b.Experiences, want)
}

// Reference returns the log-probabilities of every experience under the frozen reference: the base
// weights under LoRA, the initial weights otherwise.
func (e *Engine) Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.weights != nil && e.reference == nil {
		return nil, fmt.Errorf("cpu: the engine has no reference weights: open it with Options.Reference")
	}
	return e.score(ctx, e.reference, b.Experiences, trinity.Streams{})
}

// score returns the streams of every experience under m.
func (e *Engine) score(ctx context.Context, m *network, batch []*trinity.Experience, want trinity.Streams) ([]trinity.TokenStats, error) {
	p, err := e.borrow(ctx)
	if err != nil {
		return nil, err
	}
	defer e.of.giveBack()
	if err := p.check(batch, want); err != nil {
		return nil, err
	}
	return p.score(ctx, m, batch, want)
}

// ForwardBackward adds the gradient of the loss to the gradient since the last OptimStep. It
// returns the loss's metrics. If the model's config asks for it (output_router_logits), they
// include router/aux_loss, the load-balancing loss before its coefficient.
func (e *Engine) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.trainable(ctx); err != nil {
		return nil, err
	}
	if loss.Streams().Score || e.opts.Score {
		var err error
		if b, loss, err = e.scoring().Loss(b, loss); err != nil {
			return nil, err
		}
	}
	p, err := e.borrow(ctx)
	if err != nil {
		return nil, err
	}
	defer e.of.giveBack()
	metrics, added, err := p.train(ctx, e.weights, e.grads, b, loss)
	e.accumulating = e.accumulating || added
	return metrics, err
}

// usable returns an error if the engine is closed, which frees its memory, or if ctx is cancelled.
func (e *Engine) usable(ctx context.Context) error {
	if e.weights == nil {
		return errClosed
	}
	return ctx.Err()
}

// trainable returns an error if the engine is not usable, or was opened for forward passes only.
func (e *Engine) trainable(ctx context.Context) error {
	if e.opts.ForwardOnly {
		return errForwardOnly
	}
	return e.usable(ctx)
}
