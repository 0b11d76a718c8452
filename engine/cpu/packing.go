package cpu

import (
	"cmp"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// minShared is the length of the shortest shared prefix that gets its own segment.
const minShared = 4

// headRow is one token whose log-probability or value a loss can see.
type headRow struct {
	row         int32 // packed row of the token before, which predicts it
	target      int32
	experience  int32 // index in the batch
	position    int32 // of the token
	temperature float32
}

// packing is a batch in rows without padding. It leaves out the tokens after the last trained one,
// and sequences without trained tokens.
type packing struct {
	tokens    []int32          // [rows]
	positions []int32          // [rows] in the RoPE table
	segments  []kernel.Segment // runs of tokens of one sequence, or shared by several; Prefix names the shared run before it
	sequences [][]int          // the segments of each sequence, its prefix first
	head      []headRow
}

// stretch is the part of an experience that the engine computes: Tokens[:n].
type stretch struct {
	experience int
	tokens     []int32
	table      int // first row of its RoPE table
}

// pack packs a batch and reuses the memory of p. tableOf returns the first row of the RoPE table
// for an input of so many tokens. With share, sequences with the same table share their common
// prefixes.
func (p *packing) pack(batch []*trinity.Experience, share bool, tableOf func(length int) int) {
	p.tokens, p.positions, p.segments, p.sequences, p.head = p.tokens[:0], p.positions[:0], p.segments[:0], p.sequences[:0], p.head[:0]
	var work []stretch
	for i, e := range batch {
		if last := lastTrained(e.Mask); last > 0 {
			work = append(work, stretch{experience: i, tokens: e.Tokens[:last], table: tableOf(len(e.Tokens) - 1)})
		}
	}
	if share {
		slices.SortStableFunc(work, func(a, b stretch) int {
			return cmp.Or(cmp.Compare(a.table, b.table), slices.Compare(a.tokens, b.tokens))
		})
	}
	for len(work) > 0 {
		n, shared := 1, 0
		if share {
			n, shared = shareable(work)
		}
		p.packGroup(batch, work[:n], shared)
		work = work[n:]
	}
}

// lastTrained returns the position of the last trained token, or 0 if there is none.
func lastTrained(mask []bool) int {
	for t := len(mask) - 1; t > 0; t-- {
		if mask[t] {
			return t
		}
	}
	return 0
}

// shareable returns the number n of sorted sequences, from the first, that should share their first
// tokens, and the number of those tokens. A sequence joins as long as that saves rows.
func shareable(work []stretch) (n, shared int) {
	n, shared = 1, len(work[0].tokens)
	for n < len(work) && work[n].table == work[0].table {
		common := min(shared, commonPrefix(work[0].tokens, work[n].tokens))
		if common < minShared || n*common <= (n-1)*shared {
			break
		}
		n, shared = n+1, common
	}
	if n == 1 {
		return 1, 0
	}
	return n, shared
}

// commonPrefix returns the number of equal first tokens.
func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// packGroup appends sequences that share their first tokens, and their head rows.
func (p *packing) packGroup(batch []*trinity.Experience, group []stretch, shared int) {
	prefix := -1
	if shared > 0 {
		prefix = p.addSegment(group[0].tokens[:shared], -1, 0, group[0].table)
	}
	for _, s := range group {
		own, segments := -1, []int{}
		if prefix >= 0 {
			segments = append(segments, prefix)
		}
		if len(s.tokens) > shared {
			own = p.addSegment(s.tokens[shared:], prefix, shared, s.table)
			segments = append(segments, own)
		}
		p.sequences = append(p.sequences, segments)
		e := batch[s.experience]
		for t := 1; t <= len(s.tokens); t++ {
			if !e.Mask[t] {
				continue
			}
			row := 0
			if t-1 < shared {
				row = p.segments[prefix].Start + t - 1
			} else {
				row = p.segments[own].Start + t - 1 - shared
			}
			p.head = append(p.head, headRow{
				row: int32(row), target: e.Tokens[t], experience: int32(s.experience), position: int32(t), temperature: temperature(e),
			})
		}
	}
}

// addSegment appends a segment and returns its number. position is the position of its first token.
func (p *packing) addSegment(tokens []int32, prefix, position, table int) int {
	from := len(p.tokens)
	p.tokens = append(p.tokens, tokens...)
	for i := range tokens {
		p.positions = append(p.positions, int32(table+position+i))
	}
	p.segments = append(p.segments, kernel.Segment{Start: from, Len: len(tokens), Prefix: prefix})
	return len(p.segments) - 1
}

// temperature returns the temperature at which e was sampled; 1 if it is not recorded.
func temperature(e *trinity.Experience) float32 {
	if e.Temperature > 0 {
		return e.Temperature
	}
	return 1
}
