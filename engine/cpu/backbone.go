package cpu

import (
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// backbone computes everything from the tokens to the last hidden states, forward and backward: the
// embedding and the layers.
type backbone struct {
	cfg       *model.Config
	pool      *kernel.Pool
	newArena  func() *kernel.Arena
	recompute int // the backward pass recomputes the activations of this many layers, from the first
	low       int // columns of scratch that the low-rank updates of one linear map need at most; 0 without adapters
	rope      ropeTables
	local     ropeTables // of layers with a window; without cfg if they rotate as all do
	balance   *balance   // nil for a model without experts
	work      workspace
}

// reserve makes room for so many packed rows. With train, the workspace keeps the activations of
// every layer.
func (b *backbone) reserve(rows int, train bool) error {
	w := &b.work
	if rows > w.rows || train && !w.train {
		rows, train = max(rows, w.rows), train || w.train
		if err := w.free(); err != nil {
			return err
		}
		*w = workspace{}
		next, err := b.takeWorkspace(rows, train)
		if err != nil {
			return err
		}
		*w = *next
	}
	return b.widen(b.low)
}

// widen makes room for low-rank updates of so many columns. After an error, those before still have theirs.
func (b *backbone) widen(columns int) error {
	w := &b.work
	if columns <= w.low.columns {
		return nil
	}
	low, err := takeLow(b.newArena(), w.rows, columns, w.train)
	if err != nil {
		return err
	}
	err = w.low.free()
	w.low, b.low = low, columns
	return err
}
