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
	err := e.eachPart(b.Experiences, func(part []*trinity.Experience) error {
		if err := e.scorePart(ctx, m, part, want, false); err != nil {
			return err
		}
		stats = append(stats, e.stats(part, want)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return stats, nil
}

// eachPart packs as many sequences as fit the planned memory, for do to compute, until all were done.
func (e *Engine) eachPart(rest []*trinity.Experience, do func(part []*trinity.Experience) error) error {
	for len(rest) > 0 {
		n, tokens := 0, 0
		for n < len(rest) && (n == 0 || tokens+len(rest[n].Tokens) <= e.opts.MaxTokens) {
			tokens += len(rest[n].Tokens)
			n++
		}
		e.pack(rest[:n])
		if err := do(rest[:n]); err != nil {
			return err
		}
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
	if err := e.scorePart(ctx, e.weights, b.Experiences, want, true); err != nil {
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

// scorePart computes all head rows of the packing, which part was packed into.
func (e *Engine) scorePart(ctx context.Context, m *model, part []*trinity.Experience, want trinity.Streams, train bool) (err error) {
	if e.divergence, err = divergenceOf(want.Divergence); err != nil || len(e.packing.head) == 0 {
		return err
	}
	if err := e.states(ctx, m, train); err != nil {
		return err
	}
	if e.divergence != nil {
		if err := e.listen(ctx, part); err != nil {
			return err
		}
	}
	e.score(m, &e.packing)
	return nil
}

// states computes the last hidden states of all head rows of the packing.
func (e *Engine) states(ctx context.Context, m *model, train bool) error {
	if len(e.packing.head) == 0 {
		return nil
	}
	out, err := e.forward(ctx, m, &e.packing, train)
	if err != nil {
		return err
	}
	return e.keepStates(m, &e.packing, out, train)
}
