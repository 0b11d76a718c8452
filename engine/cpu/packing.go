package cpu

import (
	"cmp"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// headRow is a next-token distribution and one token of it, or a value.
type headRow struct {
	row         int32 // packed row of the token before
	target      int32
	temperature float32
	teacher     string
	soft        int32 // 1 + its number in packing.soft, if it has several targets, of which target is the first; else 0
}

// soft are the targets of a head row that has several: no other row shares its logits.
type soft struct {
	targets []int32   // [K]
	logprob []float32 // [K] nats
	d       []float32 // [K] of the loss by logprob
}

// use is a trained token of an experience. Branches that share tokens may train the same one, so
// several uses may have one head row.
type use struct {
	headRow
	head       int // index in packing.head
	experience int // in the batch
	position   int // of the token
}

// packing is a batch in rows without padding. It leaves out the tokens after the last trained one,
// and sequences without trained tokens. Tokens that several sequences begin with have their rows
// once: the segments are the trie of the sequences.
type packing struct {
	tokens    []int32          // [rows]
	positions []int32          // [rows] in the RoPE table
	segments  []kernel.Segment // runs of tokens; one ends where sequences end or part
	sequences []int            // the last segment of each sequence
	head      []headRow        // by row
	soft      []soft
	softSpace []float32 // the numbers of soft
	uses      []use     // by head row, then by experience
	path      []int32   // rows of the tokens of the sequence that is packed
	replay              // the experts of its rows
}

// stretch is the part of an experience that the engine computes: Tokens[:n].
type stretch struct {
	experience int
	tokens     []int32
	table      int    // first row of its RoPE table
	experts    []byte // of the tokens; nil if the routers choose
}

// pack packs a batch and reuses the memory of p. tableOf returns the first row of the RoPE table
// for an input of so many tokens. With share, sequences with the same table share their common
// prefixes.
func (p *packing) pack(batch []*trinity.Experience, share bool, tableOf func(length int) int) {
	p.tokens, p.positions, p.segments, p.sequences, p.uses = p.tokens[:0], p.positions[:0], p.segments[:0], p.sequences[:0], p.uses[:0]
	p.soft, p.softSpace, p.experts = p.soft[:0], p.softSpace[:0], p.experts[:0]
	var work []stretch
	for i, e := range batch {
		if last := lastTrained(e.Mask); last > 0 {
			work = append(work, stretch{
				experience: i, tokens: e.Tokens[:last], table: tableOf(len(e.Tokens) - 1), experts: p.expertsOf(e, last),
			})
		}
	}
	if share {
		slices.SortStableFunc(work, func(a, b stretch) int {
			return cmp.Or(cmp.Compare(a.table, b.table), p.compare(&a, &b))
		})
	}
	for len(work) > 0 {
		n := 1
		for share && n < len(work) && work[n].table == work[0].table {
			n++
		}
		p.branch(batch, work[:n], -1, 0)
		work = work[n:]
	}
	p.joinUses()
}

// branch appends sorted sequences whose first depth tokens are those of the segment prefix and of
// the segments before it.
func (p *packing) branch(batch []*trinity.Experience, work []stretch, prefix, depth int) {
	first, last := work[0], work[len(work)-1]
	common := p.commonPrefix(&first, &last)
	if common > depth {
		prefix = p.addSegment(first.tokens[depth:common], prefix, depth, first.table)
		p.addExperts(&first, depth, common)
	}
	for len(work) > 0 && len(work[0].tokens) == common {
		p.addUses(batch[work[0].experience], work[0])
		p.sequences = append(p.sequences, prefix)
		work = work[1:]
	}
	for len(work) > 0 {
		n := 1
		for n < len(work) && p.commonPrefix(&work[n], &work[0]) > common {
			n++
		}
		p.branch(batch, work[:n], prefix, common)
		work = work[n:]
	}
}

// addUses appends the trained tokens of a sequence whose rows are in p.path.
func (p *packing) addUses(e *trinity.Experience, s stretch) {
	targets := e.Tokens
	if e.Targets != nil {
		targets = e.Targets
	}
	k := len(targets) / len(e.Tokens)
	for t := 1; t <= len(s.tokens); t++ {
		if e.Mask[t] {
			row := headRow{row: p.path[t-1], target: targets[t*k], temperature: temperature(e), teacher: e.Teacher}
			if k > 1 {
				p.soft = append(p.soft, soft{targets: targets[t*k : (t+1)*k]})
				row.soft = int32(len(p.soft))
			}
			p.uses = append(p.uses, use{headRow: row, experience: s.experience, position: t})
		}
	}
}

// joinUses makes one head row of all uses that ask for the same.
func (p *packing) joinUses() {
	slices.SortFunc(p.uses, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.target, b.target), cmp.Compare(a.temperature, b.temperature),
			cmp.Compare(a.teacher, b.teacher), cmp.Compare(a.soft, b.soft), cmp.Compare(a.experience, b.experience))
	})
	p.takeSoft()
	p.head = p.head[:0]
	for i := range p.uses {
		u := &p.uses[i]
		if i == 0 || u.headRow != p.uses[i-1].headRow {
			p.head = append(p.head, u.headRow)
		}
		u.head = len(p.head) - 1
	}
}

// takeSoft takes the numbers of the rows with several targets.
func (p *packing) takeSoft() {
	n := 0
	for _, s := range p.soft {
		n += 2 * len(s.targets)
	}
	p.softSpace = slices.Grow(p.softSpace, n)[:n]
	for i, from := 0, 0; i < len(p.soft); i++ {
		s := &p.soft[i]
		k := len(s.targets)
		s.logprob, s.d = p.softSpace[from:from+k], p.softSpace[from+k:from+2*k]
		from += 2 * k
	}
}

// softOf returns the targets of a head row that has several; nil if it has one.
func (p *packing) softOf(r *headRow) *soft {
	if r.soft == 0 {
		return nil
	}
	return &p.soft[r.soft-1]
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

// addSegment appends a segment and returns its number. position is the position of its first token.
func (p *packing) addSegment(tokens []int32, prefix, position, table int) int {
	from := len(p.tokens)
	p.tokens = append(p.tokens, tokens...)
	p.path = p.path[:position]
	for i := range tokens {
		p.positions = append(p.positions, int32(table+position+i))
		p.path = append(p.path, int32(from+i))
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
