package cpu

import (
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// rmsNorm is an RMSNorm of a model. Its weight is trained and decayed as it is in files; what rows are multiplied by may be more.
type rmsNorm struct {
	cfg    *model.Config
	pool   *kernel.Pool
	weight []float32 // [columns]
}

// gain calls do with what the norm multiplies normed rows by.
func (n rmsNorm) gain(do func(gain []float32)) {
	if n.cfg.NormOffset == 0 {
		do(n.weight)
		return
	}
	gain := n.pool.Borrow(len(n.weight))
	defer n.pool.Return(gain)
	for i, w := range n.weight {
		gain[i] = w + n.cfg.NormOffset
	}
	do(gain)
}

// apply writes the normed rows of x to y, which may be x, and the factors of the rows to rstd, which may be nil.
func (n rmsNorm) apply(y, x kernel.Matrix, rstd []float32) {
	n.gain(func(gain []float32) { kernel.RMSNorm(n.pool, y, x, gain, float32(n.cfg.RMSNormEps), rstd) })
}

// backward adds the gradient with respect to x to dx, and that with respect to the weight to dWeight, unless that is nil.
func (n rmsNorm) backward(dx, dy, x kernel.Matrix, rstd, dWeight []float32) {
	n.gain(func(gain []float32) { kernel.RMSNormBackward(n.pool, dx, dy, x, gain, rstd, dWeight) })
}

// norm returns a norm with the given weight.
func (b *backbone) norm(weight []float32) rmsNorm { return rmsNorm{b.cfg, b.pool, weight} }

// replace overwrites dy, the gradient with respect to the normed rows of x, by that with respect to x. It loses scratch, which has
// the same shape.
func (n rmsNorm) replace(dy, scratch, x kernel.Matrix, rstd, dWeight []float32) {
	clearRows(n.pool, scratch)
	n.backward(scratch, dy, x, rstd, dWeight)
	copyRows(n.pool, dy, scratch)
}
