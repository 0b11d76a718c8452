package environment

import "math/bits"

// numpyRandom draws what numpy.random.default_rng(seed) draws: PCG64 (XSL RR), seeded by a
// SeedSequence. Gymnasium's environments draw from it, so equal seeds give equal episodes here and
// there.
type numpyRandom struct {
	high, low       uint64 // state
	incHigh, incLow uint64
	rest            uint32 // second half of a 64-bit draw, for the next 32-bit one
	hasRest         bool
}

// newNumpyRandom returns the generator of a seed.
func newNumpyRandom(seed uint64) *numpyRandom {
	words := seedSequence(seed)
	r := &numpyRandom{incHigh: words[2]<<1 | words[3]>>63, incLow: words[3]<<1 | 1}
	r.advance()
	var carry uint64
	r.low, carry = bits.Add64(r.low, words[1], 0)
	r.high, _ = bits.Add64(r.high, words[0], carry)
	r.advance()
	return r
}

// seedSequence returns numpy's SeedSequence(seed).generate_state(4, uint64).
func seedSequence(seed uint64) (words [4]uint64) {
	hash := func(value uint32, constant *uint32, factor uint32) uint32 {
		value ^= *constant
		*constant *= factor
		value *= *constant
		return value ^ value>>16
	}
	pool := [4]uint32{uint32(seed), uint32(seed >> 32)}
	constant := uint32(0x43b0d7e5)
	for i := range pool {
		pool[i] = hash(pool[i], &constant, 0x931e8875)
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				mixed := 0xca01f9dd*pool[to] - 0x4973f715*hash(pool[from], &constant, 0x931e8875)
				pool[to] = mixed ^ mixed>>16
			}
		}
	}
	constant = 0x8b51f9dd
	for i := range 8 {
		words[i/2] |= uint64(hash(pool[i%4], &constant, 0x58f38ded)) << (32 * (i % 2))
	}
	return words
}

// advance moves the state one step on: state × multiplier + increment, of 128 bits.
func (r *numpyRandom) advance() {
	const high, low = 0x2360ed051fc65da4, 0x4385df649fccf645
	top, bottom := bits.Mul64(r.low, low)
	top += r.high*low + r.low*high
	var carry uint64
	r.low, carry = bits.Add64(bottom, r.incLow, 0)
	r.high, _ = bits.Add64(top, r.incHigh, carry)
}

func (r *numpyRandom) uint64() uint64 {
	r.advance()
	return bits.RotateLeft64(r.high^r.low, -int(r.high>>58))
}

func (r *numpyRandom) uint32() uint32 {
	if r.hasRest {
		r.hasRest = false
		return r.rest
	}
	v := r.uint64()
	r.rest, r.hasRest = uint32(v>>32), true
	return uint32(v)
}

// float64 returns Generator.random(), in [0, 1).
func (r *numpyRandom) float64() float64 { return float64(r.uint64()>>11) / (1 << 53) }

// below returns Generator.integers(0, n) for n ≥ 1.
func (r *numpyRandom) below(n uint32) int {
	if n == 1 {
		return 0 // without a draw
	}
	product := uint64(r.uint32()) * uint64(n)
	if uint32(product) < n {
		for threshold := -n % n; uint32(product) < threshold; {
			product = uint64(r.uint32()) * uint64(n)
		}
	}
	return int(product >> 32)
}

// pick returns an index with the given probabilities.
func (r *numpyRandom) pick(probabilities []float64) int {
	u, sum := r.float64(), 0.0
	for i, p := range probabilities {
		if sum += p; sum > u {
			return i
		}
	}
	return 0
}
