package tape

import "fmt"

// SeqSum returns, per sequence, the sum over the tokens where mask is true, [N] → [S]. A nil mask
// selects all tokens.
func (s Stream) SeqSum(mask []bool) Stream {
	return s.reduce(mask, func(int) float64 { return 1 })
}

// SeqMean returns, per sequence, the mean over the tokens where mask is true, [N] → [S]. It is 0
// for a sequence without such tokens. A nil mask selects all tokens.
func (s Stream) SeqMean(mask []bool) Stream {
	return s.reduce(mask, func(count int) float64 { return 1 / float64(count) })
}

// reduce returns weighted sums per sequence. f maps the number of selected tokens of a sequence to
// the weight of each.
func (s Stream) reduce(mask []bool, f func(count int) float64) Stream {
	in, t := s.node(), s.tape
	if in.shape != perToken {
		panic("tape: a sum per sequence needs a per-token stream, not a " + in.shape.String() + " one")
	}
	s.checkMask(mask)
	out := t.add(node{kind: reduction, shape: perSequence, a: s.id, b: -1}, t.Sequences())
	n := out.node()
	n.da = t.memory.take(len(s.Value()))
	for seq := range n.value {
		from, to := t.bounds[seq], t.bounds[seq+1]
		count := to - from
		if mask != nil {
			count = countTrue(mask[from:to])
		}
		for i := from; i < to; i++ {
			if mask == nil || mask[i] {
				n.da[i] = f(count)
				n.value[seq] += n.da[i] * s.Value()[i]
			}
		}
	}
	return out
}

// Spread repeats the number of each sequence for its tokens, [S] → [N].
func (s Stream) Spread() Stream {
	t := s.tape
	if s.node().shape != perSequence {
		panic("tape: Spread of a " + s.node().shape.String() + " stream")
	}
	out := t.add(node{kind: spread, shape: perToken, a: s.id, b: -1}, t.Tokens())
	for seq, v := range s.Value() {
		for i := t.bounds[seq]; i < t.bounds[seq+1]; i++ {
			out.Value()[i] = v
		}
	}
	return out
}

// Gather selects numbers of a per-sequence stream, [S] → [len(index)]: y[k] = s[index[k]]. Losses
// over pairs compare two such streams.
func (s Stream) Gather(index []int) Stream {
	if s.node().shape != perSequence {
		panic("tape: Gather of a " + s.node().shape.String() + " stream")
	}
	out := s.tape.add(node{kind: gather, shape: gathered, a: s.id, b: -1, index: append([]int(nil), index...)}, len(index))
	for k, i := range index {
		out.Value()[k] = s.Value()[i]
	}
	return out
}

// Dot returns the weighted sum of all numbers of the stream, → [1]. It copies weights. A number
// with weight 0 does not count, even if it is infinite or NaN.
func (s Stream) Dot(weights []float64) Stream {
	if len(weights) != len(s.Value()) {
		panic(fmt.Sprintf("tape: %d weights over a stream [%d]", len(weights), len(s.Value())))
	}
	out := s.tape.add(node{kind: dot, shape: single, a: s.id, b: -1}, 1)
	n := out.node()
	n.da = s.tape.memory.take(len(weights))
	copy(n.da, weights)
	for i, w := range weights {
		if w != 0 {
			n.value[0] += w * s.Value()[i]
		}
	}
	return out
}

// Sum returns the sum of the numbers where mask is true, → [1]. A nil mask selects all.
func (s Stream) Sum(mask []bool) Stream {
	s.checkMask(mask)
	weights := make([]float64, len(s.Value()))
	for i := range weights {
		if mask == nil || mask[i] {
			weights[i] = 1
		}
	}
	return s.Dot(weights)
}

func (s Stream) checkMask(mask []bool) {
	if mask != nil && len(mask) != len(s.Value()) {
		panic(fmt.Sprintf("tape: mask [%d] over a stream [%d]", len(mask), len(s.Value())))
	}
}

func countTrue(mask []bool) int {
	n := 0
	for _, m := range mask {
		if m {
			n++
		}
	}
	return n
}
