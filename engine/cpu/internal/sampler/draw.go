package sampler

import (
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// block is the number of probabilities in a partial sum. A draw finds its block first, then its
// token in the block.
const block = kernel.SumBlock

// query holds what a draw depends on besides the logits.
type query struct {
	temperature float32                // 0 is greedy
	topK        int                    // ≤ 0 means all
	topP        float32                // ≥ 1 means all
	minP        float32                // relative to the best probability
	penalty     float32                // 1 means none
	seen        []int32                // distinct tokens that the penalty applies to
	bias        []trinity.TokenLogprob // what is added to logits
	counts      []tally                // of the completion's tokens, for presence and frequency
	presence    float32                // subtracted for each token that the completion has
	frequency   float32                // and for each time that it has it
	forbidden   []int32                // tokens that must not be drawn
	constraint  trinity.Constraint     // says which other tokens must not be drawn; nil if none does
	u           float64                // in [0, 1)
}

// drawer draws tokens from rows of logits. It holds the scratch of one task and allocates nothing.
type drawer struct {
	p    []float32 // [V] unnormalised probabilities
	sums []float64 // [V/block] their sums by block
	best float32   // the largest score, divided by the temperature
	mass float64   // Σ exp(score/temperature − best)
	mask []uint64  // [V/64] tokens that a constraint allows
	cut  cutter
}

func newDrawer(vocab int) *drawer {
	return &drawer{
		p:    make([]float32, vocab),
		sums: make([]float64, (vocab+block-1)/block),
		mask: make([]uint64, (vocab+63)/64),
		cut:  newCutter(vocab),
	}
}

// draw draws a token from logits [V], which it does not change, and returns its log-probability in
// nats under softmax(logits / temperature). The token is -1 if the logits are not numbers or every
// token is forbidden.
func (d *drawer) draw(logits []float32, q *query) (token int32, logprob float32) {
	token = d.choose(logits, q)
	switch {
	case token < 0:
	case q.temperature == 0 || q.altersScores():
		logprob = d.logprob(logits, token, q.temperature)
	default: // the draw has computed the sum of logprob, to the last bit
		x := float32(logits[token] * (1 / q.temperature))
		logprob = float32(float64(x) - float64(d.best) - math.Log(d.mass))
	}
	if math.IsNaN(float64(logprob)) {
		return -1, 0
	}
	return token, logprob
}

// choose returns the token of draw, without its log-probability.
func (d *drawer) choose(logits []float32, q *query) int32 {
	scores := logits
	if q.altersScores() {
		scores = d.altered(logits, q)
	}
	best := kernel.Max(scores)
	if math.IsInf(float64(best), -1) {
		return -1
	}
	if q.temperature == 0 {
		return firstAt(scores, best)
	}
	d.exponentials(scores, best, q.temperature)
	switch {
	case math.IsNaN(d.mass):
		return -1
	case q.truncates():
		d.cut.cut(d.p, d.mass, q.topK, q.topP, q.minP)
		return d.cut.pick(q.u)
	}
	return d.pick(q.u * d.mass)
}

// logprob returns the log-probability that training computes for a token, to the last bit.
func (d *drawer) logprob(logits []float32, token int32, temperature float32) float32 {
	if temperature == 0 || temperature == 1 {
		return kernel.Logprob(logits, token)
	}
	kernel.Scale(d.p, logits, 1/temperature)
	return kernel.Logprob(d.p, token)
}

// top returns the n most likely tokens under softmax(logits / temperature), with their log-probability
// as in [drawer.logprob]. It leaves out tokens that have none.
func (d *drawer) top(logits []float32, n int, temperature float32) []trinity.TokenLogprob {
	if temperature != 0 && temperature != 1 {
		kernel.Scale(d.p, logits, 1/temperature)
		logits = d.p
	}
	best := make([]candidate, 0, n+1)
	for id, x := range logits {
		c := candidate{x, int32(id)}
		if len(best) == n && !c.before(best[n-1]) || math.IsInf(float64(x), -1) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, c, func(x, y candidate) int {
			if x.before(y) {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, c)[:min(len(best)+1, n)]
	}
	ids, logprobs := make([]int32, len(best)), make([]float32, len(best))
	for i, c := range best {
		ids[i] = c.id
	}
	kernel.Logprobs(logprobs, logits, ids)
	out := make([]trinity.TokenLogprob, len(best))
	for i := range out {
		out[i] = trinity.TokenLogprob{Token: ids[i], Logprob: logprobs[i]}
	}
	return out
}

func (q *query) altersScores() bool {
	return len(q.seen) > 0 || len(q.bias) > 0 || len(q.counts) > 0 || len(q.forbidden) > 0 ||
		q.constraint != nil
}

func (q *query) truncates() bool {
	return q.topK > 0 || q.topP < 1 || q.minP > 0
}

// exponentials sets p to exp((x − best)/temperature), and computes the sums of its blocks and their
// total. p may be x.
func (d *drawer) exponentials(x []float32, best, temperature float32) {
	d.best = best
	if temperature != 1 {
		kernel.Scale(d.p, x, 1/temperature)
		x, d.best = d.p, best*(1/temperature)
	}
	d.mass = kernel.ExpSums(d.p, x, d.best, d.sums)
}

// altered returns a copy of the logits, in p, with what changes them in the order of vLLM: the bias; the
// repetition penalty of Keskar et al. 2019 (CTRL, §4.1; like transformers it multiplies logits below 0
// and divides the others); OpenAI's frequency and presence penalties; forbidden tokens, and those that a
// constraint does not allow, at −∞.
func (d *drawer) altered(logits []float32, q *query) []float32 {
	copy(d.p, logits)
	for _, b := range q.bias {
		d.p[b.Token] += b.Logprob
	}
	for _, t := range q.seen {
		if d.p[t] < 0 {
			d.p[t] *= q.penalty
		} else {
			d.p[t] /= q.penalty
		}
	}
	for _, c := range q.counts {
		d.p[c.token] -= q.frequency * float32(c.n)
		d.p[c.token] -= q.presence
	}
	for _, t := range q.forbidden {
		d.p[t] = float32(math.Inf(-1))
	}
	if q.constraint != nil {
		q.constraint.Mask(d.mask)
		forbid(d.p, d.mask)
	}
	return d.p
}

// forbid sets the logits of the tokens without a bit in the mask to −∞.
func forbid(logits []float32, mask []uint64) {
	for i, word := range mask {
		some := logits[i*64 : min((i+1)*64, len(logits))]
		switch word {
		case math.MaxUint64:
		case 0:
			for j := range some {
				some[j] = float32(math.Inf(-1))
			}
		default:
			for j := range some {
				if word>>j&1 == 0 {
					some[j] = float32(math.Inf(-1))
				}
			}
		}
	}
}

// pick returns the token at which the running sum of p exceeds target.
func (d *drawer) pick(target float64) int32 {
	b, before := 0, 0.0
	for b+1 < len(d.sums) && before+d.sums[b] <= target {
		before += d.sums[b]
		b++
	}
	for ; b >= 0; b-- { // if rounding puts target beyond the end, take the last token with any probability
		last := int32(-1)
		for i, p := range d.p[b*block : min((b+1)*block, len(d.p))] {
			if p == 0 {
				continue
			}
			last = int32(b*block + i)
			if before += float64(p); before > target {
				return last
			}
		}
		if last >= 0 {
			return last
		}
	}
	return 0
}

// firstAt returns the first index of the value best.
func firstAt(x []float32, best float32) int32 {
	for i, v := range x {
		if v == best {
			return int32(i)
		}
	}
	return 0
}
