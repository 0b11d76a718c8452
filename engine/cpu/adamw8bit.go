package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

func init() {
	optimizers[trinity.AdamW8bit] = func(spec trinity.OptimizerSpec) (optimizer, error) {
		if spec.Momentum != 0 {
			return nil, fmt.Errorf("cpu: optimizer adamw_8bit: momentum has no effect: it is OptimParams.Beta1")
		}
		return &adamW8bit{}, nil
	}
}

// adamW8bit is adamW whose moments are kept in 8 bits between steps (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"): for
// each block of 256 weights of a tensor
//
//	m ← β₁·decoded(m) + (1 - β₁)·g,  v ← β₂·decoded(v) + (1 - β₂)·g²,  w by these as in adamW,  then m and v are encoded
//
// each as the block's largest magnitude, in float32, and a code per weight (see codebook). The moments of a tensor of less than 4096 weights
// (norms, biases) stay in float32, as in the authors' implementation; those of embeddings have 8 bits like all others. A weight's moments take
// 2 + 8/256 bytes in place of 8. Blocks are computed each by itself, with the same bits for any number of cores.
type adamW8bit struct {
	e            *Engine
	mean, square *codes
	small        [2]vector // both moments of small tensors
	parts        []part
	now          kernel.AdamWStep
	update       func(task int)
}

// part is what a task updates: n weights of one tensor.
type part struct {
	weight, moment, n int // the first of them, in what is trained and in codes or small
	coded             bool
}

func (*adamW8bit) describe() string { return trinity.AdamW8bit }

func (a *adamW8bit) take(e *Engine) (err error) {
	a.e, a.update = e, a.updatePart
	large, small := &layout{index: map[string]int{}}, &layout{index: map[string]int{}}
	for _, s := range e.trainedLayout().slots {
		a.place(s, large, small)
	}
	const why = "two moments, 8 bits where a tensor has at least 4096 weights"
	if a.mean, err = e.takeCodes("exp_avg.", large, signedCodes(), why); err != nil {
		return err
	}
	if a.square, err = e.takeCodes("exp_avg_sq.", large, unsignedCodes(), why); err != nil {
		return err
	}
	for i, prefix := range []string{"exp_avg.", "exp_avg_sq."} {
		if a.small[i], err = e.takeVector(prefix, small, why); err != nil {
			return err
		}
	}
	return nil
}

// place finds room for the moments of a tensor, and cuts it into parts.
func (a *adamW8bit) place(s slot, large, small *layout) {
	const leastCoded, partSize = 4096, 64 * codeBlock
	l, n := small, s.size()
	if n >= leastCoded {
		l = large
		l.size = (l.size + codeBlock - 1) / codeBlock * codeBlock
	}
	l.add(slot{name: s.name, shape: s.shape})
	moment := l.slots[len(l.slots)-1].from
	for from := 0; from < n; from += partSize {
		a.parts = append(a.parts, part{s.from + from, moment + from, min(partSize, n-from), l == large})
	}
}

func (a *adamW8bit) state() []stored { return []stored{a.mean, a.square, a.small[0], a.small[1]} }

func (a *adamW8bit) step(e *Engine, p trinity.OptimParams, scale float64) {
	a.now = adamWStep(e.steps, p, scale).Prepare()
	e.pool.Run(len(a.parts), a.update)
}

func (a *adamW8bit) updatePart(task int) {
	p := a.parts[task]
	w, g := a.e.trained[p.weight:p.weight+p.n], a.e.gradient[p.weight:p.weight+p.n]
	if !p.coded {
		a.now.Update(w, g, a.small[0].flat[p.moment:p.moment+p.n], a.small[1].flat[p.moment:p.moment+p.n])
		return
	}
	buf := a.e.pool.Borrow(2 * codeBlock)
	defer a.e.pool.Return(buf)
	for from := 0; from < p.n; from += codeBlock {
		to, at := min(p.n, from+codeBlock), p.moment+from
		m, v := buf[:to-from], buf[codeBlock:codeBlock+to-from]
		a.mean.decode(m, at)
		a.square.decode(v, at)
		a.now.Update(w[from:to], g[from:to], m, v)
		a.mean.encode(at, m)
		a.square.encode(at, v)
	}
}
