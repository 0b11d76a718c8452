package cpu

// parameters are the numbers of a model: its weights, its trained weights, and their gradient. Each
// flat vector holds tensors by a layout; each network views flat vectors.
type parameters struct {
	frozen
	adapters          *adapterLayout // nil without LoRA
	trained, gradient []float32      // by trainedLayout; gradient is nil under ForwardOnly
	weights           *network       // current weights, adapters included; nil after Close
	grads             *network       // their gradient; nil under ForwardOnly
	reference         *network       // frozen weights; nil unless asked for
}

// trainedLayout returns the layout of everything that is trained: the adapters, or all weights.
func (p *parameters) trainedLayout() *layout {
	if p.adapters != nil {
		return &p.adapters.layout
	}
	return p.base
}

// count returns the number of trained weights.
func (p *parameters) count() (n int64) {
	for _, s := range p.trainedLayout().slots {
		n += int64(s.size())
	}
	return n
}
