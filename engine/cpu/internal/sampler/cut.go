package sampler

import (
	"math"
	"slices"
)

// candidate is a token with its unnormalised probability, of which the best token has 1, or its logit.
type candidate struct {
	p  float32
	id int32
}

// before orders tokens by decreasing probability, ties by increasing id.
func (x candidate) before(y candidate) bool {
	return x.p > y.p || x.p == y.p && x.id < y.id
}

// cutter truncates distributions without sorting the vocabulary, and usually visits it only once:
// it works on the tokens near the best one as long as these are enough, and sorts only the tokens
// near the cut.
type cutter struct {
	kept  []candidate // [≤ V] by id
	order []candidate // [≤ V] members of one bucket
	count [buckets]int32
	mass  [buckets]float64
}

// levels are the least probabilities, relative to the best token's, of the tokens that cut
// collects. It tries one level after the other until the tokens are enough.
var levels = [...]float32{1.0 / 1024, 1.0 / 65536, 0}

// buckets is the number of buckets of probabilities. They have 3 bits of mantissa, 8 for a factor
// of two, over the exponents of (0, 1]. The last bucket also holds smaller probabilities and zero.
const buckets = 1024

func newCutter(vocab int) cutter {
	return cutter{kept: make([]candidate, 0, vocab), order: make([]candidate, 0, vocab)}
}

// bucketOf returns the bucket of p in [0, 1]; larger p come first.
func bucketOf(p float32) int {
	return int((0x3f800000 - math.Float32bits(p)) >> 20)
}

// cut sets kept to the tokens that remain after truncating p [V] with the given mass: the topK best
// (≤ 0 means all); of them the fewest whose mass reaches the share topP; of those the tokens with
// at least minP of the best token's probability.
func (c *cutter) cut(p []float32, mass float64, topK int, topP, minP float32) {
	if topK <= 0 && topP >= 1 {
		c.collect(p, minP)
		return
	}
	collected := 0.0
	for _, least := range levels {
		collected = c.collect(p, least)
		if topK > 0 && len(c.kept) >= topK || topK <= 0 && collected >= float64(topP)*mass {
			break
		}
	}
	c.fill()
	if topK > 0 {
		mass = collected
		if topK < len(c.kept) {
			mass = c.keepCount(topK)
		}
	}
	if topP < 1 {
		c.fill()
		c.keepMass(float64(topP) * mass)
	}
	c.kept = slices.DeleteFunc(c.kept, func(x candidate) bool { return x.p < minP })
}

// collect keeps the tokens with at least the given probability and returns their mass.
func (c *cutter) collect(p []float32, least float32) float64 {
	c.kept = c.kept[:0]
	sum := 0.0
	for i, v := range p {
		if v >= least {
			c.kept = append(c.kept, candidate{v, int32(i)})
			sum += float64(v)
		}
	}
	return sum
}

// fill counts the kept tokens by bucket.
func (c *cutter) fill() {
	c.count, c.mass = [buckets]int32{}, [buckets]float64{}
	for _, x := range c.kept {
		b := bucketOf(x.p)
		c.count[b]++
		c.mass[b] += float64(x.p)
	}
}

// keepCount keeps the k best tokens, k < len(kept), and returns their mass.
func (c *cutter) keepCount(k int) float64 {
	b, n, mass := 0, 0, 0.0
	for ; n+int(c.count[b]) < k; b++ {
		n += int(c.count[b])
		mass += c.mass[b]
	}
	order := c.sorted(b)[:k-n]
	for _, x := range order {
		mass += float64(x.p)
	}
	c.keepTo(order[len(order)-1])
	return mass
}

// keepMass keeps the fewest best tokens with at least this mass, and at least one.
func (c *cutter) keepMass(target float64) {
	b, mass, reached := 0, 0.0, 0.0
	for i := range buckets {
		if c.count[i] == 0 {
			continue
		}
		b, mass = i, reached
		if reached += c.mass[i]; reached >= target {
			break
		}
	}
	order := c.sorted(b)
	for _, x := range order {
		if mass += float64(x.p); mass >= target {
			c.keepTo(x)
			return
		}
	}
	c.keepTo(order[len(order)-1])
}

// keepTo drops the tokens after last.
func (c *cutter) keepTo(last candidate) {
	c.kept = slices.DeleteFunc(c.kept, last.before)
}

// sorted returns the tokens of bucket b in order.
func (c *cutter) sorted(b int) []candidate {
	c.order = c.order[:0]
	for _, x := range c.kept {
		if bucketOf(x.p) == b {
			c.order = append(c.order, x)
		}
	}
	slices.SortFunc(c.order, func(x, y candidate) int {
		if x.before(y) {
			return -1
		}
		return 1
	})
	return c.order
}

// pick returns the kept token at which the running sum exceeds the fraction u of the total.
func (c *cutter) pick(u float64) int32 {
	total := 0.0
	for _, x := range c.kept {
		total += float64(x.p)
	}
	sum := 0.0
	for _, x := range c.kept {
		if sum += float64(x.p); sum > u*total {
			return x.id
		}
	}
	return c.kept[len(c.kept)-1].id
}
