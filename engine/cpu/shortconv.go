package cpu

import "github.com/trinity-go/trinity/engine/cpu/internal/kernel"

// inputs returns the columns of what a layer's attention or convolution reads: q, k and v, or B, C and x.
func (b *backbone) inputs(layer int) int { return b.cfg.Projections(layer).QKV.Out }

// mixed returns the columns of what a layer's attention or convolution gives.
func (b *backbone) mixed(layer int) int { return b.cfg.Projections(layer).Output.In }

// widest returns the most columns of inputs and of mixed in any layer.
func (b *backbone) widest() (inputs, mixed int) {
	for layer := range b.cfg.NumLayers {
		inputs, mixed = max(inputs, b.inputs(layer)), max(mixed, b.mixed(layer))
	}
	return inputs, mixed
}

// convolve computes a layer's convolution over every segment and its prefix. The layer's normed inputs are lost.
func (b *backbone) convolve(l *layer, a *activations, bcx kernel.Matrix, p *packing) {
	rows := bcx.Rows
	b.withTaps(l, func(c kernel.ShortConv) {
		c.Forward(b.pool, first(a.attention, rows, b.cfg.HiddenSize), b.work.normed.RowRange(0, rows), bcx, p.segments)
	})
}

// backConvolve writes the gradient with respect to B, C and x to dInputs, given that with respect to what the convolution gives.
func (b *backbone) backConvolve(l, grad *layer, a *activations, dInputs, dOut kernel.Matrix, p *packing) {
	b.withTaps(l, func(c kernel.ShortConv) {
		c.Backward(b.pool, dInputs, grad.conv, dOut, first(a.qkv, dOut.Rows, dInputs.Cols), p.segments)
	})
}

// withTaps calls do with a layer's convolution.
func (b *backbone) withTaps(l *layer, do func(c kernel.ShortConv)) {
	space := b.pool.Borrow(len(l.conv))
	defer b.pool.Return(space)
	do(kernel.NewShortConv(space, l.conv, b.cfg.HiddenSize))
}
