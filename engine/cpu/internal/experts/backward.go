package experts

import "github.com/trinity-go/trinity/engine/cpu/internal/kernel"

// WeighBackward is the backward pass of the weights in Combine. hidden [pairs, n] are the inputs of
// the experts' last product, and dHidden [pairs, n] is the gradient with respect to them as if all
// weights were 1. It computes the gradient with respect to the weights, and multiplies dHidden and
// hidden by the weights: dHidden becomes the gradient, and hidden the inputs for the last product's
// weight gradient.
func (r *Routing) WeighBackward(pool *kernel.Pool, dHidden, hidden kernel.Matrix) {
	eachToken(pool, r.tokens, func(t int) {
		for i, pair := range r.placesOf(t) {
			d, h, w := dHidden.Row(int(pair)), hidden.Row(int(pair)), r.weightsOf(t)[i]
			r.dWeights[t*r.PerToken+i] = kernel.Dot(d, h)
			kernel.Scale(d, d, w)
			kernel.Scale(h, h, w)
		}
	})
}

// AddUp is the backward pass of Gather: it adds a token's pairs [pairs, n] to tokens [tokens, n],
// in increasing order of the experts.
func (r *Routing) AddUp(pool *kernel.Pool, tokens, pairs kernel.Matrix) {
	eachToken(pool, r.tokens, func(t int) {
		for _, pair := range r.placesOf(t) {
			kernel.AddTo(tokens.Row(t), pairs.Row(int(pair)))
		}
	})
}

// Backward writes the gradient with respect to the logits to dLogits [tokens, Experts], from the
// gradient with respect to the weights. Unless extra is nil, Backward adds extra(token) [Experts]
// to the gradient with respect to the token's probabilities.
func (r *Routing) Backward(pool *kernel.Pool, dLogits kernel.Matrix, extra func(token int) []float32) {
	eachToken(pool, r.tokens, func(t int) {
		p, d := r.Probabilities(t), dLogits.Row(t)
		clear(d)
		r.backChosen(t, d)
		if extra != nil {
			kernel.AddTo(d, extra(t))
		}
		inner := kernel.Dot(d, p)
		for i := range d {
			d[i] = p[i] * (d[i] - inner)
		}
	})
}

// backChosen writes the gradient with respect to the probabilities of the chosen experts to d. With
// w = p/Σp it is (dw − Σ dw·w)/Σp.
func (r *Routing) backChosen(token int, d []float32) {
	p, dw, w := r.Probabilities(token), r.dWeights[token*r.PerToken:], r.weightsOf(token)
	sum, inner := float32(1), float32(0)
	if r.Normalise {
		sum = 0
		for i, expert := range r.Chosen(token) {
			sum += p[expert]
			inner += float32(dw[i] * w[i])
		}
	}
	for i, expert := range r.Chosen(token) {
		d[expert] = (dw[i] - inner) / sum
	}
}

// Keep drops all tokens but the given ones, which increase. It returns the old numbers of the
// remaining pairs, in the order of their new numbers.
func (r *Routing) Keep(tokens []int) (pairs []int) {
	kept := make([]bool, r.tokens)
	for _, t := range tokens {
		kept[t] = true
	}
	for pair, t := range r.token[:r.Pairs()] {
		if kept[t] {
			pairs = append(pairs, pair)
		}
	}
	for i, t := range tokens {
		copy(r.Probabilities(i), r.Probabilities(t))
		copy(r.Chosen(i), r.Chosen(t))
		copy(r.weightsOf(i), r.weightsOf(t))
	}
	r.tokens = len(tokens)
	r.group()
	return pairs
}
