package cpu

import (
	"errors"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/experts"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// balance measures how the routers distribute tokens over experts, and computes the load-balancing
// loss. It counts a token once for every sequence that has it, so that the result does not depend
// on the micro-batches of a step.
type balance struct {
	mixture *model.Mixture
	layers  int       // with experts
	counts  [][]int64 // [layers of the model][experts] tokens sent since the last optimizer step
	// Of the same tokens, those whose experts were given, a token once a layer, and of these those for which the router
	// would have picked others.
	given, changed int64

	// for the current batch, by segment of the packing
	uses          []int64   // [segments] sequences that have the segment
	chosen        []float32 // [segments, experts] tokens sent, summed over layers
	probabilities []float32 // [segments, experts] sums over tokens and layers
	gradient      []float32 // [segments, experts] of the loss by the probability of each token in the segment
	segmentOf     []int32   // [rows]
}

// newBalance returns nil for a model without experts.
func newBalance(cfg *model.Config) *balance {
	if cfg.Mixture == nil {
		return nil
	}
	b := &balance{mixture: cfg.Mixture}
	for _, sparse := range cfg.Mixture.Layers {
		var counts []int64
		if sparse {
			b.layers++
			counts = make([]int64, cfg.Mixture.Experts)
		}
		b.counts = append(b.counts, counts)
	}
	return b
}

// weighs reports whether the training loss includes the load-balancing loss.
func (b *balance) weighs() bool { return b != nil && b.mixture.AuxLoss > 0 }

// begin prepares for a forward pass over p.
func (b *balance) begin(p *packing) {
	if b == nil {
		return
	}
	b.uses = zeros(b.uses, len(p.segments))
	for _, last := range p.sequences {
		b.uses[last]++
	}
	for i, s := range slices.Backward(p.segments) { // a prefix comes before the segments that follow it
		if s.Prefix >= 0 {
			b.uses[s.Prefix] += b.uses[i]
		}
	}
	if !b.weighs() {
		return
	}
	n := len(p.segments) * b.mixture.Experts
	b.chosen, b.probabilities, b.gradient = zeros(b.chosen, n), zeros(b.probabilities, n), zeros(b.gradient, n)
	b.segmentOf = zeros(b.segmentOf, len(p.tokens))
	for i, s := range p.segments {
		for row := range s.Len {
			b.segmentOf[s.Start+row] = int32(i)
		}
	}
}

// zeros returns n zeros, in the memory of v if they fit.
func zeros[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	v = v[:n]
	clear(v)
	return v
}

// observe counts the tokens that a layer's router sent to each expert.
func (b *balance) observe(pool *kernel.Pool, layer int, r *experts.Routing, p *packing) {
	counts, n := b.counts[layer], b.mixture.Experts
	for i, s := range p.segments {
		for row := s.Start; row < s.Start+s.Len; row++ {
			for _, expert := range r.Chosen(row) {
				counts[expert] += b.uses[i]
			}
			if p.has(row) {
				b.given, b.changed = b.given+b.uses[i], b.changed+b.uses[i]*r.Changed(row)
			}
		}
	}
	if !b.weighs() {
		return
	}
	pool.Run(len(p.segments), func(i int) {
		chosen, sums, s := b.chosen[i*n:][:n], b.probabilities[i*n:][:n], p.segments[i]
		for row := s.Start; row < s.Start+s.Len; row++ {
			for _, expert := range r.Chosen(row) {
				chosen[expert]++
			}
			kernel.AddTo(sums, r.Probabilities(row))
		}
	})
}

// weigh returns this batch's part of the load-balancing loss of the optimizer step, and prepares
// its gradient with respect to the probabilities. For each sequence, the loss is transformers'
// load_balancing_loss_func (Fedus et al. 2022, equations 4 to 6): experts · Σᵢ fᵢ·Pᵢ, with fᵢ the
// tokens sent to expert i and Pᵢ the sum of its probabilities, both per token and layer; fᵢ counts
// as constant. weigh averages over the tokens of the step, so the sum does not depend on the
// micro-batches. For a batch of one sequence it is transformers' value.
func (b *balance) weigh(p *packing, whole []*trinity.Experience) (loss float64) {
	tokens := 0
	for _, x := range whole {
		tokens += lastTrained(x.Mask)
	}
	n := b.mixture.Experts
	share := make([]float64, n)
	var path []int // segments of a sequence
	for _, last := range p.sequences {
		rows := 0
		path = path[:0]
		for segment := last; segment >= 0; segment = p.segments[segment].Prefix {
			path, rows = append(path, segment), rows+p.segments[segment].Len
		}
		for i := range share {
			f, sum := 0.0, 0.0
			for _, segment := range path {
				f += float64(b.chosen[segment*n+i])
				sum += float64(b.probabilities[segment*n+i])
			}
			share[i] = f / float64(rows*b.layers)
			loss += float64(n) * share[i] * sum / float64(tokens*b.layers)
		}
		for _, segment := range path {
			for i, f := range share {
				b.gradient[segment*n+i] += float32(b.mixture.AuxLoss * float64(n) * f / float64(tokens*b.layers))
			}
		}
	}
	return loss
}

// byRow returns the gradient of the load-balancing loss by the probabilities of a row's token; nil
// if the training loss does not include it.
func (b *balance) byRow() func(row int) []float32 {
	if !b.weighs() {
		return nil
	}
	n := b.mixture.Experts
	return func(row int) []float32 { return b.gradient[int(b.segmentOf[row])*n:][:n] }
}

// report adds the load of the experts since the last step to the metrics, and router/replay_changed.
func (b *balance) report(metrics trinity.Metrics) {
	if b == nil {
		return
	}
	metrics.Add(b.mixture.LoadMetrics(b.counts))
	if b.given > 0 {
		metrics["router/replay_changed"] = float64(b.changed) / float64(b.given)
	}
}

// clear begins to count anew.
func (b *balance) clear() {
	if b == nil {
		return
	}
	b.given, b.changed = 0, 0
	for _, counts := range b.counts {
		clear(counts)
	}
}

// loads returns the counts; nil for a model without experts.
func (b *balance) loads() [][]int64 {
	if b == nil {
		return nil
	}
	return b.counts
}

// setLoads continues from the counts of a state; nil is a state without a gradient.
func (b *balance) setLoads(counts [][]int64) error {
	if counts == nil {
		return nil
	}
	same := func(a, b []int64) bool { return len(a) == len(b) }
	if b == nil || !slices.EqualFunc(b.counts, counts, same) {
		return errors.New("expert_loads are of another model")
	}
	for layer := range counts {
		copy(b.counts[layer], counts[layer])
	}
	return nil
}
