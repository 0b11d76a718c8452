package sampler

import (
	"math"
	"slices"
)

// cut is a place in the order of tokens by falling probability, ties by rising id: it and everything before it is kept.
type cut struct {
	p  float32
	id int32
}

func (c cut) keeps(p float32, id int32) bool {
	return p > c.p || p == c.p && id <= c.id
}

// cutter finds cuts without sorting the vocabulary: probabilities fall into buckets by their leading bits, and only the
// bucket that holds the cut is sorted.
type cutter struct {
	count [buckets]int32
	mass  [buckets]float64
	order []cut // [≤ V] members of one bucket
}

// buckets have 3 bits of mantissa: 8 to a factor of two, over the exponents of (0, 1]. The last also holds what is
// smaller still, and zero.
const buckets = 1024

func newCutter(vocab int) cutter { return cutter{order: make([]cut, 0, vocab)} }

// bucketOf numbers the bucket of p in [0, 1]; larger p come first.
func bucketOf(p float32) int {
	return int((0x3f800000 - math.Float32bits(p)) >> 20)
}

// find is the cut of p [V], unnormalised with maximum 1: the topK best (≤ 0 means all), of them the fewest whose mass
// reaches topP of theirs, of those the ones with at least minP.
func (c *cutter) find(p []float32, topK int, topP, minP float32) cut {
	c.count, c.mass = [buckets]int32{}, [buckets]float64{}
	for _, v := range p {
		b := bucketOf(v)
		c.count[b]++
		c.mass[b] += float64(v)
	}
	at, mass := cut{0, math.MaxInt32}, 0.0
	for _, m := range &c.mass {
		mass += m
	}
	if topK > 0 && topK < len(p) {
		at, mass = c.atCount(p, topK)
	}
	if topP < 1 {
		if byMass := c.atMass(p, float64(topP)*mass); at.keeps(byMass.p, byMass.id) {
			at = byMass
		}
	}
	if at.p < minP {
		at = cut{minP, math.MaxInt32}
	}
	return at
}

// atCount is the cut that keeps k tokens, and their mass.
func (c *cutter) atCount(p []float32, k int) (cut, float64) {
	b, n, mass := 0, 0, 0.0
	for ; n+int(c.count[b]) < k; b++ {
		n += int(c.count[b])
		mass += c.mass[b]
	}
	order := c.sorted(p, b)[:k-n]
	for _, x := range order {
		mass += float64(x.p)
	}
	return order[len(order)-1], mass
}

// atMass is the cut that keeps the fewest tokens with at least this mass, the best one in any case.
func (c *cutter) atMass(p []float32, target float64) cut {
	b, mass := 0, 0.0
	for ; b+1 < buckets && mass+c.mass[b] < target; b++ {
		mass += c.mass[b]
	}
	for c.count[b] == 0 { // rounding, or nothing in the first buckets: the next one that holds a token
		b = (b + 1) % buckets
	}
	order := c.sorted(p, b)
	for _, x := range order {
		if mass += float64(x.p); mass >= target {
			return x
		}
	}
	return order[len(order)-1]
}

// sorted is the members of bucket b in order.
func (c *cutter) sorted(p []float32, b int) []cut {
	c.order = c.order[:0]
	for i, v := range p {
		if bucketOf(v) == b {
			c.order = append(c.order, cut{v, int32(i)})
		}
	}
	slices.SortFunc(c.order, func(x, y cut) int {
		switch {
		case x.p > y.p:
			return -1
		case x.p < y.p:
			return 1
		}
		return int(x.id - y.id)
	})
	return c.order
}
