package python

import (
	"io"
	"math/bits"
	"slices"

	"github.com/andybalholm/brotli/flate"
	"github.com/andybalholm/brotli/matchfinder"
)

const (
	window            = 1 << 15 // how far deflate refers back, and the bytes of a block here
	shortest, longest = 3, 258  // of what deflate copies
	lookups           = 128     // how many earlier places are compared with each place
	rounds            = 2       // of choosing, each with the frequencies of the one before
)

// newDeflater returns a writer whose output is smaller than that of [compress/flate], because it also copies three bytes
// and looks for the cheapest symbols. Equal input gives equal bytes on all machines: it has no floating point.
func newDeflater(out io.Writer) io.WriteCloser {
	return &matchfinder.Writer{Dest: out, MatchFinder: &cheapest{}, Encoder: flate.NewEncoder(), BlockSize: window}
}

// cheapest finds how to write a block with the fewest bits: as literals and copies of what stands before them.
type cheapest struct {
	data   []byte         // a window, then the block
	head   [1 << 15]int32 // by the hash of three bytes: the last place that has it, and 1
	before []int32        // by place: the place before it that has its hash, and 1
	copies []piece        // that are possible, by place, then by rising length
	ends   []int32        // by place of the block: the end of its copies
	paths  []path         // by place of the block: the cheapest way there
	cost   symbols        // of a symbol, in 1/16 bit
}

// piece is a copy, or a literal if its distance is 0.
type piece struct{ length, distance int32 }

type path struct {
	piece // the last one
	cost  int32
}

// symbols has a number for each symbol of deflate: literals, then lengths; distances.
type symbols struct {
	literal  [286]int32
	distance [30]int32
}

func (c *cheapest) Reset() { *c = cheapest{} }

// FindMatches appends the copies of a block.
func (c *cheapest) FindMatches(to []matchfinder.Match, block []byte) []matchfinder.Match {
	start := c.slide(block)
	c.search(start)
	var all []piece
	c.price(nil, block)
	for range rounds {
		all = c.walk(block)
		c.price(all, block)
	}
	var next matchfinder.Match
	for _, p := range all {
		if p.distance == 0 {
			next.Unmatched++
			continue
		}
		next.Length, next.Distance = int(p.length), int(p.distance)
		to, next = append(to, next), matchfinder.Match{}
	}
	if next.Unmatched > 0 {
		to = append(to, next)
	}
	return to
}

// slide forgets what is farther away than a window, adds a block and returns its place.
func (c *cheapest) slide(block []byte) (start int) {
	if far := int32(len(c.data) - window); far > 0 {
		c.data = slices.Delete(c.data, 0, int(far))
		c.before = slices.Delete(c.before, 0, int(far))
		for i := range c.head {
			c.head[i] = max(0, c.head[i]-far)
		}
		for i := range c.before {
			c.before[i] = max(0, c.before[i]-far)
		}
	}
	start = len(c.data)
	c.data = append(c.data, block...)
	c.before = append(c.before, make([]int32, len(block))...)
	return start
}

// search finds, for each place of the block, the nearest copy of each length.
func (c *cheapest) search(start int) {
	c.copies, c.ends = c.copies[:0], c.ends[:0]
	for at := start; at < len(c.data); at++ {
		rest := c.data[at:min(at+longest, len(c.data))]
		if len(rest) >= shortest {
			hash := (uint32(rest[0]) | uint32(rest[1])<<8 | uint32(rest[2])<<16) * 0x9e3779b1 >> 17
			found := c.head[hash]
			c.head[hash], c.before[at] = int32(at+1), found
			best := shortest - 1
			for tries := 0; found > 0 && tries < lookups && best < len(rest) && at+1-int(found) <= window; tries++ {
				if there := c.data[found-1:]; there[best] == rest[best] {
					if n := common(there, rest); n > best {
						best = n
						c.copies = append(c.copies, piece{int32(n), int32(at+1) - found})
					}
				}
				found = c.before[found-1]
			}
		}
		c.ends = append(c.ends, int32(len(c.copies)))
	}
}

// common returns how many bytes of b are at the beginning of a.
func common(a, b []byte) (n int) {
	for n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// walk returns the cheapest pieces of a block.
func (c *cheapest) walk(block []byte) (all []piece) {
	c.paths = slices.Grow(c.paths[:0], len(block)+1)[:len(block)+1]
	for i := range c.paths {
		c.paths[i].cost = 1 << 30
	}
	c.paths[0].cost = 0
	var lengths [longest + 1]int32
	for n := shortest; n <= longest; n++ {
		symbol, extra := lengthSymbol(n)
		lengths[n] = c.cost.literal[symbol] + 16*extra
	}
	first := int32(0)
	for at, b := range block {
		here := c.paths[at].cost
		if cost := here + c.cost.literal[b]; cost < c.paths[at+1].cost {
			c.paths[at+1] = path{piece{1, 0}, cost}
		}
		n := int32(shortest)
		for _, p := range c.copies[first:c.ends[at]] {
			symbol, extra := distanceSymbol(int(p.distance))
			cost := here + c.cost.distance[symbol] + 16*extra
			for ; n <= p.length; n++ {
				if to := &c.paths[at+int(n)]; cost+lengths[n] < to.cost {
					*to = path{piece{n, p.distance}, cost + lengths[n]}
				}
			}
		}
		first = c.ends[at]
	}
	for at := int32(len(block)); at > 0; at -= all[len(all)-1].length {
		all = append(all, c.paths[at].piece)
	}
	slices.Reverse(all)
	return all
}

// price sets what symbols cost: fewer bits for what the pieces have more often. Without pieces it guesses.
func (c *cheapest) price(all []piece, block []byte) {
	var count symbols
	at := int32(0)
	for _, p := range all {
		if p.distance == 0 {
			count.literal[block[at]]++
		} else {
			length, _ := lengthSymbol(int(p.length))
			distance, _ := distanceSymbol(int(p.distance))
			count.literal[length]++
			count.distance[distance]++
		}
		at += p.length
	}
	if all == nil {
		for _, b := range block {
			count.literal[b]++
		}
		for i := 257; i < len(count.literal); i++ {
			count.literal[i] = int32(len(block) / 64)
		}
		for i := range count.distance {
			count.distance[i] = 1
		}
	}
	c.cost = symbols{}
	weigh(c.cost.literal[:], count.literal[:])
	weigh(c.cost.distance[:], count.distance[:])
}

// weigh sets the costs of symbols that occur so often.
func weigh(costs, counts []int32) {
	total := int32(0)
	for _, n := range counts {
		total += n
	}
	for i, n := range counts {
		costs[i] = max(16, logarithm(2*total+1)-logarithm(max(1, 2*n)))
	}
}

// logarithm returns roughly 16 times the binary logarithm.
func logarithm(of int32) int32 {
	n := int32(bits.Len32(uint32(of))) - 1
	return 16*n + int32(int64(of)<<4>>n) - 16
}

// lengthSymbol returns the symbol of a length, and how many bits follow it.
func lengthSymbol(n int) (symbol int, extra int32) {
	if n == longest {
		return 285, 0
	}
	symbol, extra = bucket(n-shortest, 2)
	return 257 + symbol, extra
}

func distanceSymbol(n int) (symbol int, extra int32) { return bucket(n-1, 1) }

// bucket numbers intervals of which 1<<fine follow one another with the same length, and returns the bits of that.
func bucket(x, fine int) (number int, extra int32) {
	n := bits.Len(uint(x)) - 1
	if n <= fine {
		return x, 0
	}
	return (n-fine)<<fine + x>>(n-fine), int32(n - fine)
}
