// Package experts routes the tokens of a batch to the experts of a mixture layer and combines their
// results (Shazeer et al. 2017; the router of Qwen3-MoE): softmax over all experts, the few best
// for each token, one run of rows per expert. Training and sampling share it.
//
// A token's result depends only on its own logits, and sums its experts' results in increasing
// order of the experts. So it has the same bits in any batch and for any number of cores.
package experts

import (
	"cmp"
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// Number returns the number of a layer among those with experts.
func Number(sparse []bool, layer int) (n int) {
	for _, has := range sparse[:layer] {
		if has {
			n++
		}
	}
	return n
}

// Shape says how a mixture layer routes.
type Shape struct {
	Experts   int
	PerToken  int  // experts per token, at most Experts
	Normalise bool // divide the weights of a token's experts by their sum
}

// Routing assigns the tokens of one layer to experts. A pair is one token at one of its experts.
// Pairs are ordered by expert, then by token, so that an expert's pairs are neighbouring rows.
type Routing struct {
	Shape
	tokens        int
	probabilities []float32 // [tokens, experts]
	chosen        []int32   // [tokens, PerToken] experts of a token, increasing
	weights       []float32 // [tokens, PerToken] of their results
	dWeights      []float32 // [tokens, PerToken]
	place         []int32   // [tokens, PerToken] pairs of a token
	token         []int32   // [pairs]
	from          []int32   // [experts+1] first pair of every expert, then the number of pairs
	changed       []int32   // [tokens] 1 if the router would have picked others than the given experts
}

// New takes the memory for so many tokens.
func New(t *kernel.Taker, shape Shape, tokens int) *Routing {
	pairs := tokens * shape.PerToken
	return &Routing{
		Shape: shape, probabilities: t.Float32(tokens * shape.Experts), weights: t.Float32(pairs), dWeights: t.Float32(pairs),
		chosen: t.Int32(pairs), place: t.Int32(pairs), token: t.Int32(pairs), from: t.Int32(shape.Experts + 1), changed: t.Int32(tokens),
	}
}

// Logits returns memory for the router's logits [tokens, Experts]. [Routing.Route] routes these
// tokens.
func (r *Routing) Logits(tokens int) kernel.Matrix {
	r.tokens = tokens
	return kernel.NewMatrix(r.probabilities, tokens, r.Experts)
}

// Route turns the logits into probabilities and picks the best experts of every token. Of experts
// with equal probabilities it picks the lowest. Unless given is nil, a token has the experts that
// given returns, if it returns any: PerToken different ones, in any order.
func (r *Routing) Route(pool *kernel.Pool, given func(token int) []int32) {
	eachToken(pool, r.tokens, func(t int) {
		p := r.Probabilities(t)
		softmax(p)
		r.changed[t] = 0
		r.pick(t, p)
		if given != nil {
			r.take(t, p, given(t))
		}
		r.weigh(t)
	})
	r.group()
}

// Pairs returns the number of pairs of the routed tokens.
func (r *Routing) Pairs() int { return r.tokens * r.PerToken }

// Chosen returns the experts of a token, in increasing order.
func (r *Routing) Chosen(token int) []int32 { return r.chosen[token*r.PerToken:][:r.PerToken] }

// Token returns the token of a pair.
func (r *Routing) Token(pair int) int { return int(r.token[pair]) }

// Probabilities returns the softmax of a token's logits [Experts].
func (r *Routing) Probabilities(token int) []float32 {
	return r.probabilities[token*r.Experts:][:r.Experts]
}

// Each calls do for every expert that has pairs, with their range [from, to), in parallel.
func (r *Routing) Each(pool *kernel.Pool, do func(expert, from, to int)) {
	pool.Run(r.Experts, func(expert int) {
		if from, to := int(r.from[expert]), int(r.from[expert+1]); from < to {
			do(expert, from, to)
		}
	})
}

func softmax(x []float32) {
	top, sum := kernel.Max(x), float32(0)
	for i := range x {
		x[i] -= top
	}
	kernel.Exp(x, x)
	for _, v := range x {
		sum += v
	}
	for i := range x {
		x[i] /= sum
	}
}

// Changed returns 1 if the router would have picked other experts for a token than the given ones, else 0.
func (r *Routing) Changed(token int) int64 { return int64(r.changed[token]) }

// take gives a token the given experts, unless there are none. Their order is that of pick, so that a
// router's own choice has the weights that it has without take.
func (r *Routing) take(token int, p []float32, given []int32) {
	if given == nil {
		return
	}
	chosen, weights := r.Chosen(token), r.weightsOf(token)
	for _, expert := range given {
		if !slices.Contains(chosen, expert) {
			r.changed[token] = 1
		}
	}
	if r.changed[token] == 0 {
		return
	}
	copy(chosen, given)
	slices.SortFunc(chosen, func(a, b int32) int { return cmp.Or(cmp.Compare(p[b], p[a]), cmp.Compare(a, b)) })
	for i, expert := range chosen {
		weights[i] = p[expert]
	}
}

// pick chooses the experts of a token: it collects the best probabilities in a sorted list.
func (r *Routing) pick(token int, p []float32) {
	chosen, weights, n := r.Chosen(token), r.weightsOf(token), 0
	for expert, v := range p {
		if n == len(chosen) && !(v > weights[n-1]) {
			continue
		}
		n = min(n+1, len(chosen))
		at := n - 1
		for ; at > 0 && weights[at-1] < v; at-- {
			chosen[at], weights[at] = chosen[at-1], weights[at-1]
		}
		chosen[at], weights[at] = int32(expert), v
	}
}

// weigh makes weights of the probabilities of a token's experts, and orders these by expert.
func (r *Routing) weigh(token int) {
	chosen, weights := r.Chosen(token), r.weightsOf(token)
	if r.Normalise {
		sum := float32(0)
		for _, w := range weights {
			sum += w
		}
		for i := range weights {
			weights[i] /= sum
		}
	}
	for i := range chosen {
		for j := i; j > 0 && chosen[j] < chosen[j-1]; j-- {
			chosen[j], chosen[j-1], weights[j], weights[j-1] = chosen[j-1], chosen[j], weights[j-1], weights[j]
		}
	}
}

func (r *Routing) weightsOf(token int) []float32 { return r.weights[token*r.PerToken:][:r.PerToken] }

// group numbers the pairs, ordered by expert.
func (r *Routing) group() {
	chosen, next := r.chosen[:r.Pairs()], r.from
	clear(next)
	for _, expert := range chosen {
		next[expert+1]++
	}
	for e := range r.Experts {
		next[e+1] += next[e]
	}
	for i, expert := range chosen {
		r.place[i] = next[expert]
		r.token[next[expert]] = int32(i / r.PerToken)
		next[expert]++
	}
	copy(next[1:], next[:r.Experts]) // every entry is now the first pair of the next expert
	next[0] = 0
}

// Gather copies the rows of tokens [tokens, n] to their pairs [pairs, n].
func (r *Routing) Gather(pool *kernel.Pool, pairs, tokens kernel.Matrix) {
	eachToken(pool, r.tokens, func(t int) {
		for _, pair := range r.placesOf(t) {
			copy(pairs.Row(int(pair)), tokens.Row(t))
		}
	})
}

// Combine writes the sums of the experts' results [pairs, n], multiplied by their weights, to their
// tokens [tokens, n].
func (r *Routing) Combine(pool *kernel.Pool, tokens, pairs kernel.Matrix) {
	eachToken(pool, r.tokens, func(t int) {
		for i, pair := range r.placesOf(t) {
			if i == 0 {
				kernel.Scale(tokens.Row(t), pairs.Row(int(pair)), r.weightsOf(t)[0])
				continue
			}
			kernel.Axpy(tokens.Row(t), pairs.Row(int(pair)), r.weightsOf(t)[i])
		}
	})
}

func (r *Routing) placesOf(token int) []int32 { return r.place[token*r.PerToken:][:r.PerToken] }

// eachToken calls do for every token, in parallel blocks.
func eachToken(pool *kernel.Pool, tokens int, do func(token int)) {
	const block = 16
	pool.Run((tokens+block-1)/block, func(task int) {
		for t := task * block; t < min(tokens, (task+1)*block); t++ {
			do(t)
		}
	})
}
