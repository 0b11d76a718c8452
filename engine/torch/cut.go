package torch

import (
	"cmp"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// rows is how many rows the ranks compute at once.
func (e *workerModel) rows() int { return e.worker.ranks / (tensorOf(e.spec) * sequenceOf(e.spec)) }

// piece returns an empty micro-batch.
func (e *workerModel) piece() *piece {
	p := newPiece(e.rows(), ofRow(e.spec), e.cfg)
	p.whole = e.whole || e.spec.Replay // sequences with one stem may have other experts there
	for _, t := range e.teachers {
		p.whole = p.whole || t.whole
	}
	return p
}

// spread gives each sequence to a rank. Sequences that share a stem go to the rows where they add
// least. p is an empty piece.
func (b *batch) spread(p *piece) []int32 {
	for k, i := range b.sent {
		p.add(keys(b.all[i], int(b.lengths[k])))
	}
	if p.shared {
		return p.ranks
	}
	ranks, _ := spread(p.lengths, len(p.forests))
	return ranks
}

// spread gives each sequence to a rank, the longest first and to the rank with the least tokens. It
// returns the ranks and the most tokens of one.
func spread(lengths []int32, ranks int) (rankOf []int32, most int) {
	order := make([]int, len(lengths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lengths[b], lengths[a]) })
	load, rankOf := make([]int, ranks), make([]int32, len(lengths))
	for _, i := range order {
		rank := slices.Index(load, slices.Min(load))
		rankOf[i] = int32(rank)
		load[rank] += int(lengths[i])
	}
	return rankOf, slices.Max(load)
}

// Cut implements trainer.Cutter: a piece is as many experiences as the ranks can hold at once, each
// in one row.
func (e *workerModel) Cut(exps []*trinity.Experience, unit int) (pieces [][]*trinity.Experience) {
	start, now := 0, e.piece()
	for i := 0; i < len(exps); i += unit {
		mine := exps[i:min(i+unit, len(exps))]
		now.grow(mine, e)
		if i > start && !now.fits() {
			pieces = append(pieces, exps[start:i])
			start, now = i, e.piece()
			now.grow(mine, e)
		}
	}
	if start < len(exps) {
		pieces = append(pieces, exps[start:])
	}
	return pieces
}

// grow adds what the engine computes of experiences.
func (p *piece) grow(exps []*trinity.Experience, e *workerModel) {
	for _, x := range exps {
		if e.spec.Head == engine.ScoreHead && len(x.Tokens) > 0 {
			x = experience.ScoredState(x.ID, x.Tokens, e.cfg.PAD)
		}
		p.add(keys(x, length(x)))
	}
}

// piece is a micro-batch that grows. As long as no two sequences share a stem, it knows their lengths alone.
type piece struct {
	lengths      []int32
	sum, longest int
	most, widest int  // tokens that a row may have, and that its sequences may have together
	whole        bool // sequences share no stems
	shared       bool
	forests      []forest // by row
	ranks        []int32  // of each sequence
}

// newPiece returns an empty piece. The attention of a row copies the keys and values of each sequence's stem. Their
// memory may be that of the queries, or twice that of the row's own keys and values if that is more.
func newPiece(rows, most int, cfg *model.Config) *piece {
	return &piece{most: most, widest: most * max(2, cfg.NumHeads/max(1, cfg.NumKVHeads)), forests: make([]forest, rows)}
}

func (p *piece) add(tokens []int32) {
	n := len(tokens)
	p.lengths, p.sum, p.longest = append(p.lengths, int32(n)), p.sum+n, max(p.longest, n)
	if p.whole {
		return
	}
	best, least, stem := 0, 0, 0
	for r := range p.forests {
		shared := p.forests[r].stem(tokens)
		if load := p.forests[r].rows + n - shared; r == 0 || load < least {
			best, least, stem = r, load, shared
		}
	}
	p.shared = p.shared || stem > 0
	p.ranks = append(p.ranks, int32(best))
	p.forests[best].add(tokens, stem)
}

// fits reports whether no row has too many tokens. Without stems it spreads the sequences only near that limit: the row that
// gets the longest sequence last had at most the mean of the others.
func (p *piece) fits() bool {
	if p.shared {
		return !slices.ContainsFunc(p.forests, func(f forest) bool { return f.rows > p.most || f.tokens > p.widest })
	}
	rows := len(p.forests)
	if (p.sum+(rows-1)*p.longest)/rows <= p.most {
		return true
	}
	_, load := spread(p.lengths, rows)
	return load <= p.most
}

// shortestStem is the fewest tokens that sequences must begin with in common to share them. The
// worker has the same number.
const shortestStem = 16

// forest is the sequences of a row, which computes a stem that several begin with once.
type forest struct {
	rows, tokens int
	families     map[[shortestStem]int32][][]int32 // by their first tokens, each in order
}

// stem returns the number of tokens of a sequence that the row has already.
func (f *forest) stem(tokens []int32) int {
	if len(tokens) < shortestStem {
		return 0
	}
	family := f.families[[shortestStem]int32(tokens)]
	at, _ := slices.BinarySearchFunc(family, tokens, slices.Compare[[]int32])
	stem := 0
	for _, neighbour := range family[max(0, at-1):min(len(family), at+1)] {
		stem = max(stem, experience.CommonPrefix(neighbour, tokens))
	}
	return stem
}

// add adds a sequence whose first stem tokens the row has.
func (f *forest) add(tokens []int32, stem int) {
	f.rows, f.tokens = f.rows+len(tokens)-stem, f.tokens+len(tokens)
	if len(tokens) < shortestStem {
		return
	}
	if f.families == nil {
		f.families = map[[shortestStem]int32][][]int32{}
	}
	key := [shortestStem]int32(tokens)
	family := f.families[key]
	at, _ := slices.BinarySearchFunc(family, tokens, slices.Compare[[]int32])
	f.families[key] = slices.Insert(family, at, tokens)
}
