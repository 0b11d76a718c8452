package cpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// Distributions calls visit with the log-probabilities [V] in nats, at temperature 1, of the token
// that follows tokens[:t], for every t in [from, len(tokens)], in order. from is at least 1. The
// next call overwrites the slice; visit must not call the engine. An error of visit ends the call.
func (e *Engine) Distributions(ctx context.Context, tokens []int32, from int, visit func(t int, logprobs []float32) error) error {
	if from < 1 || from > len(tokens) {
		return fmt.Errorf("cpu: distributions from position %d of %d tokens: expected 1 to %d", from, len(tokens), len(tokens))
	}
	for t, token := range tokens {
		if token < 0 || int(token) >= e.cfg.VocabSize {
			return fmt.Errorf("cpu: token %d at position %d is outside the vocabulary of %d", token, t, e.cfg.VocabSize)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	row := make([]float32, e.cfg.VocabSize)
	for ; from <= len(tokens); from += headChunk {
		if err := e.distributions(ctx, tokens[:min(len(tokens), from+headChunk-1)], from, row, visit); err != nil {
			return err
		}
	}
	return nil
}

// distributions is Distributions for at most headChunk positions: after the forward pass, all their
// logits are in memory.
func (e *Engine) distributions(
	ctx context.Context, tokens []int32, from int, row []float32, visit func(t int, logprobs []float32) error,
) error {
	n := len(tokens)
	x := &trinity.Experience{ // its last token is never read
		Tokens: append(slices.Clone(tokens), tokens[n-1]), Mask: make([]bool, n+1), PromptLen: from,
	}
	for t := from; t <= n; t++ {
		x.Mask[t] = true
	}
	batch := []*trinity.Experience{x}
	p, err := e.borrow(ctx)
	if err != nil {
		return err
	}
	defer e.of.giveBack()
	if err := p.check(batch, trinity.Streams{}); err != nil {
		return err
	}
	p.pack(batch)
	if err := p.forward(ctx, e.weights, batch, trinity.Streams{}, false); err != nil {
		return err
	}
	uses := p.packing.uses
	logits := p.head.logitsOf(0, len(uses))
	for i, u := range uses {
		copy(row, logits.Row(i))
		lse := kernel.LogSumExp(row)
		for v := range row {
			row[v] -= lse
		}
		if err := visit(u.position, row); err != nil {
			return err
		}
	}
	return nil
}
