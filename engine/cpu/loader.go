package cpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// loader takes the memory of what is trained and reads it. The loader of a plan only counts.
type loader struct {
	opts   *Options
	cfg    *model.Config
	pool   *kernel.Pool
	memory *account
	*parameters
}

// load reads the trained weights from source, which is nil in a plan. The frozen ones are there.
func (l *loader) load(source model.Source) error {
	if l.opts.LoRA != nil {
		return l.addAdapters(source)
	}
	if err := l.trainAll(source); err != nil {
		return err
	}
	l.weights = viewModel(l.cfg, view{l.base, l.trained, true}, nil, nil)
	if l.opts.Reference {
		l.reference = viewModel(l.cfg, view{l.base, l.baseFlat, true}, nil, nil)
	}
	return nil
}

// takeFrozen places all weights, and reads them if nothing changes them. All engines of the process that opened the same file
// share one copy. source is nil in a plan.
func (b *base) takeFrozen(source model.Source) (err error) {
	if b.base, err = modelLayout(b.cfg); err != nil {
		return err
	}
	adapts, only := b.opts.LoRA != nil, b.opts.ForwardOnly
	if !adapts && !only && !b.opts.Reference {
		return nil
	}
	why := "frozen base weights, float32"
	if !adapts && !only {
		why = "frozen weights of the reference model, float32"
	}
	b.memory.note(frozenWeights, 4*int64(b.base.room), why+"; one copy for all engines that read the same file")
	if b.memory.planning {
		return nil
	}
	key, err := weightsKey(b.opts)
	if err != nil {
		return err
	}
	if b.shared, err = shareWeights(key, func(arena *kernel.Arena) ([]float32, error) { return b.readFrozen(arena, source) }); err != nil {
		return err
	}
	b.baseFlat = b.shared.flat
	return nil
}

// readFrozen reads the weights into arena, rounded if the options ask for bf16.
func (b *base) readFrozen(arena *kernel.Arena, source model.Source) ([]float32, error) {
	flat, err := arena.Float32(b.base.room)
	if err != nil {
		return nil, fmt.Errorf("cpu: base weights: %w", err)
	}
	if err := readTensors(b.pool, b.base, flat, source); err != nil {
		return nil, err
	}
	if b.opts.DType == "bf16" {
		kernel.RoundToBF16(b.pool, flat)
	}
	return flat, nil
}

// trainAll makes all weights trained. With a reference it copies them, without one it reads them.
func (l *loader) trainAll(source model.Source) error {
	if l.opts.ForwardOnly {
		l.trained = l.baseFlat
		return nil
	}
	var err error
	if l.trained, err = l.memory.take(trainedWeights, l.base.room, "float32"); err != nil || l.memory.planning {
		return err
	}
	if l.baseFlat != nil {
		copyFlat(l.pool, l.trained, l.baseFlat)
		return nil
	}
	l.baseFlat = l.trained
	return readTensors(l.pool, l.base, l.trained, source)
}

// readTensors fills a vector of weights from a model, in parallel parts.
func readTensors(pool *kernel.Pool, l *layout, weights []float32, source model.Source) error {
	var mu sync.Mutex
	var first error
	type piece struct {
		span
		t model.Tensor
	}
	var pieces []piece
	for i := range l.slots {
		s := &l.slots[i]
		t, err := source.Tensor(s.name)
		if err != nil {
			return fmt.Errorf("cpu: %w", err)
		}
		width := s.size() / s.shape[0]
		for _, p := range s.spans(max(1, partSize/width) * width) {
			pieces = append(pieces, piece{p, t})
		}
	}
	pool.Run(len(pieces), func(i int) {
		p := pieces[i]
		width := p.slot.size() / p.slot.shape[0]
		p.fill(pool, weights, func(w []float32) {
			if err := p.t.Rows(w, p.first/width, (p.first+p.n)/width); err != nil {
				mu.Lock()
				first = errors.Join(first, fmt.Errorf("cpu: %w", err))
				mu.Unlock()
			}
		})
	})
	return first
}
