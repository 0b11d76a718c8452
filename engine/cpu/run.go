package cpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

// Forward returns the streams of every experience under the current weights. Sequences that do not fit the planned memory at once are
// computed one part of the batch after another.
func (e *Engine) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.scoreAll(ctx, e.weights, b, want)
}

// Reference is Forward under the frozen reference: the base weights under LoRA, the initial weights otherwise.
func (e *Engine) Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.weights != nil && e.reference == nil {
		return nil, fmt.Errorf("cpu: no reference weights are kept; open the engine with Options.Reference")
	}
	return e.scoreAll(ctx, e.reference, b, trinity.Streams{})
}

func (e *Engine) scoreAll(ctx context.Context, m *model, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if err := e.check(b, want); err != nil {
		return nil, err
	}
	e.headSpace.wantDiscriminator = want.Discriminator
	defer func() { e.headSpace.wantDiscriminator = false }()
	stats := make([]trinity.TokenStats, 0, len(b.Experiences))
	err := e.eachPart(ctx, m, b.Experiences, func(part []*trinity.Experience) { stats = append(stats, e.stats(part, want)...) })
	if err != nil {
		return nil, err
	}
	return stats, nil
}

// eachPart computes the head rows of as many sequences as fit the planned memory, until all were done.
func (e *Engine) eachPart(ctx context.Context, m *model, rest []*trinity.Experience, done func(part []*trinity.Experience)) error {
	for len(rest) > 0 {
		n, tokens := 0, 0
		for n < len(rest) && (n == 0 || tokens+len(rest[n].Tokens) <= e.opts.MaxTokens) {
			tokens += len(rest[n].Tokens)
			n++
		}
		e.pack(rest[:n])
		if err := e.logprobs(ctx, m, false); err != nil {
			return err
		}
		done(rest[:n])
		rest = rest[n:]
	}
	return nil
}

// ForwardBackward adds the gradient of the loss to the gradient. Metrics are the loss's, and router/aux_loss, the load-balancing loss
// before its coefficient, if the model's config asks for it (output_router_logits).
func (e *Engine) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opts.ForwardOnly {
		return nil, errForwardOnly
	}
	want := loss.Streams()
	if err := e.check(b, want); err != nil {
		return nil, err
	}
	if want.Discriminator {
		return nil, errors.New("cpu: a loss asks for entropy discriminators, which have no gradient: only Forward gives them")
	}
	e.pack(b.Experiences)
	e.balance.begin(&e.packing)
	if err := e.logprobs(ctx, e.weights, true); err != nil {
		return nil, err
	}
	grads, metrics, err := loss.Loss(b, e.stats(b.Experiences, want))
	if err != nil {
		return nil, err
	}
	needed, err := e.takeGrads(b, grads)
	if err != nil {
		return metrics, err
	}
	if e.balance.weighs() && len(e.packing.head) > 0 {
		sum := trinity.Metrics{"router/aux_loss": e.balance.weigh(&e.packing, b.Whole)}
		sum.Add(metrics)
		metrics, needed = sum, true
	}
	if !needed {
		return metrics, nil
	}
	e.accumulating = true
	if !e.balance.weighs() { // which reaches every token
		e.dropIdle()
	}
	e.backScore(e.weights, e.grads, &e.packing, e.work.dOut.RowRange(0, len(e.packing.tokens)))
	return metrics, e.backward(ctx, e.weights, e.grads, &e.packing)
}

var (
	errForwardOnly = errors.New("cpu: the engine was opened with Options.ForwardOnly: it has no gradient")
	errClosed      = errors.New("cpu: the engine is closed")
)

// usable refuses what comes after Close, when the memory is no longer there, or under a cancelled context.
func (e *Engine) usable(ctx context.Context) error {
	if e.weights == nil {
		return errClosed
	}
	return ctx.Err()
}

// check refuses batches that cannot be computed.
func (e *Engine) check(b *trinity.Batch, want trinity.Streams) error {
	if e.weights == nil {
		return errClosed
	}
	if err := e.checkStreams(want); err != nil {
		return err
	}
	for _, x := range b.Experiences {
		if err := x.Check(); err != nil {
			return fmt.Errorf("cpu: %w", err)
		}
		for t, token := range x.Tokens {
			if token < 0 || int(token) >= e.cfg.VocabSize {
				return fmt.Errorf("cpu: experience %s: token %d at position %d is outside the vocabulary of %d", x.ID, token, t, e.cfg.VocabSize)
			}
		}
	}
	return nil
}

func (e *Engine) pack(batch []*trinity.Experience) {
	e.rope.prepare(batch)
	e.packing.pack(batch, !e.shareNothing, e.rope.start)
}

// logprobs computes all head rows of the packing.
func (e *Engine) logprobs(ctx context.Context, m *model, train bool) error {
	if len(e.packing.head) == 0 {
		return nil
	}
	out, err := e.forward(ctx, m, &e.packing, train)
	if err != nil {
		return err
	}
	return e.score(m, &e.packing, out, train)
}
