package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

func init() {
	optimizers[engine.AdamW8bit] = func(spec engine.OptimizerSpec) (optimizer, error) {
		if spec.Momentum != 0 {
			return nil, fmt.Errorf("cpu: optimizer adamw_8bit: momentum has no effect: set OptimParams.Beta1")
		}
		return &adamW8bit{}, nil
	}
}

// adamW8bit is adamW that stores its moments in 8 bits between steps (Dettmers et al. 2022, "8-bit
// Optimizers via Block-wise Quantization"). For each block of 256 weights of a tensor, a step
//
//	decodes m and v
//	m ← β₁·m + (1 - β₁)·g,  v ← β₂·v + (1 - β₂)·g²
//	updates w as adamW does
//	encodes m and v, each as the block's largest magnitude in float32 and one code a weight
//
// A codebook defines the codes. The moments of a tensor with fewer than 4096 weights (norms,
// biases) stay in float32, as in the authors' implementation; the moments of embeddings have 8 bits
// like all others. The moments of a weight take 2 + 8/256 bytes instead of 8. Blocks do not depend
// on each other, so any number of cores gives the same bits.
type adamW8bit struct {
	mean, square *codes
	small        [2]vector // both moments of small tensors
	parts        []part
	now          update // the current step
	constants    kernel.AdamWStep
	updatePart   func(task int) // a method value, made once so that a step allocates nothing
}

// part is some weights of one tensor, which one task updates.
type part struct {
	span
	moment int  // of the first, in codes or in small
	coded  bool // the moments are in codes
}

func (*adamW8bit) describe() string { return engine.AdamW8bit }

func (a *adamW8bit) take(memory *account, l *layout) (err error) {
	a.updatePart = a.updateWeights
	large, small := &layout{index: map[string]int{}}, &layout{index: map[string]int{}}
	for i := range l.slots {
		a.place(&l.slots[i], large, small)
	}
	const why = "two moments, 8 bits where a tensor has at least 4096 weights"
	if a.mean, err = takeCodes(memory, "exp_avg.", large, signedCodes(), why); err != nil {
		return err
	}
	if a.square, err = takeCodes(memory, "exp_avg_sq.", large, unsignedCodes(), why); err != nil {
		return err
	}
	for i, prefix := range []string{"exp_avg.", "exp_avg_sq."} {
		if a.small[i], err = takeVector(memory, prefix, small, why); err != nil {
			return err
		}
	}
	return nil
}

// place adds the moments of a tensor to one of the layouts, and cuts the tensor into parts.
func (a *adamW8bit) place(s *slot, large, small *layout) {
	const leastCoded = 4096
	l, n := small, s.size()
	if n >= leastCoded {
		l = large
		l.size = (l.size + codeBlock - 1) / codeBlock * codeBlock
	}
	l.add(slot{name: s.name, shape: s.shape})
	moment := l.slots[len(l.slots)-1].from
	for _, p := range s.spans(64 * codeBlock) {
		a.parts = append(a.parts, part{span: p, moment: moment + p.first, coded: l == large})
	}
}

func (a *adamW8bit) state() []stored { return []stored{a.mean, a.square, a.small[0], a.small[1]} }

func (a *adamW8bit) step(u update) {
	a.now, a.constants = u, u.adamW().Prepare()
	u.pool.Run(len(a.parts), a.updatePart)
}

// updateWeights updates the weights of one part.
func (a *adamW8bit) updateWeights(task int) {
	p, u := &a.parts[task], &a.now
	p.change(u.pool, u.weights, func(w []float32) { a.updateRows(p, w) })
}

// updateRows updates the weights of one part, row-major.
func (a *adamW8bit) updateRows(p *part, w []float32) {
	u, at := &a.now, p.slot.from+p.first
	g := u.gradient[at : at+p.n]
	if !p.coded {
		a.constants.Update(w, g, a.small[0].flat[p.moment:p.moment+p.n], a.small[1].flat[p.moment:p.moment+p.n])
		return
	}
	buf := u.pool.Borrow(2 * codeBlock)
	defer u.pool.Return(buf)
	for from := 0; from < p.n; from += codeBlock {
		to, at := min(p.n, from+codeBlock), p.moment+from
		m, v := buf[:to-from], buf[codeBlock:codeBlock+to-from]
		a.mean.decode(m, at)
		a.square.decode(v, at)
		a.constants.Update(w[from:to], g[from:to], m, v)
		a.mean.encode(at, m)
		a.square.encode(at, v)
	}
}
