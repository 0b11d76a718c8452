package sampler

import (
	"math/bits"
	"time"
)

// Automatic is the value of Options.Drafts that lets the sampler choose, each step, how many draft
// tokens it verifies. MostDrafts bounds them for one sequence.
const (
	Automatic  = -1
	MostDrafts = 16
)

// verifiedRows is the number of rows of a step that sequences may fill with drafts, if MaxSequences
// is less.
const verifiedRows = 32

// drafter proposes tokens that sequences may draw next, and chooses how many of them a step
// verifies. What it proposes changes the time of a step and nothing else.
type drafter struct {
	most  int // for one sequence and step
	auto  bool
	texts *texts
	odds  [lengthKinds * shareKinds]odds
	pace  pace
	found []found
	picks []*sequence
}

// draft is a proposed token.
type draft struct {
	token int32
	kind  uint8 // of its odds
}

func newDrafter(opts Options) *drafter {
	if opts.Drafts == 0 {
		return nil
	}
	d := &drafter{most: opts.Drafts, auto: opts.Drafts == Automatic, texts: newTexts(textParts), pace: newPace(opts.decodedRows())}
	if d.auto {
		d.most = MostDrafts
	}
	for i := range d.odds {
		d.odds[i].chance = 0.5
	}
	return d
}

// learn adds a sequence's newest tokens to the texts.
func (d *drafter) learn(q *sequence, tokens []int32) {
	if q.text.group == 0 {
		q.text = d.texts.begin(groupOf(q.request), q.request.prompt)
	}
	for _, token := range tokens {
		d.texts.add(&q.text, token, true)
	}
}

// groupOf returns the group of a request's texts: those of one prompt and adapter. It is never 0.
func groupOf(r *request) uint64 {
	h := r.hash
	for _, c := range []byte(r.adapter.name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h | 1
}

// propose sets the drafts of a sequence: what came most often, and last among equals, where the longest
// run of its newest tokens came before.
func (d *drafter) propose(q *sequence, most int) {
	q.drafts = q.drafts[:0]
	if q.text.group == 0 {
		return
	}
	d.found = d.texts.find(&q.text, d.found[:0])
	for all := d.found; len(all) > 0 && len(q.drafts) < most; {
		token, votes := d.vote(all)
		q.drafts = append(q.drafts, draft{token, kindOf(all[0].length+len(q.drafts), votes, len(all))})
		kept := all[:0]
		for _, f := range all {
			at, _ := d.texts.next(f.place)
			if _, more := d.texts.next(at); more && d.texts.tokens[at] == token {
				kept = append(kept, found{at, f.length})
			}
		}
		all = kept
	}
}

// vote returns the token that follows most places, and how many.
func (d *drafter) vote(all []found) (token int32, votes int) {
	for i, f := range all {
		if votes >= len(all)-i {
			break
		}
		n := 0
		candidate := d.following(f.place)
		for _, other := range all[i:] {
			if d.following(other.place) == candidate {
				n++
			}
		}
		if n > votes {
			token, votes = candidate, n
		}
	}
	return token, votes
}

// following returns the token behind a place that has one.
func (d *drafter) following(place int32) int32 {
	at, _ := d.texts.next(place)
	return d.texts.tokens[at]
}

// Kinds of drafts: by how many tokens before it agree, which are up to 2, 4, 8, 16 or more, and by how
// many places vote for it.
const (
	lengthKinds = 5
	shareKinds  = 4
)

// kindOf returns the kind of a draft.
func kindOf(length, votes, of int) uint8 {
	long := min(max(0, bits.Len(uint(length-1))-1), lengthKinds-1)
	share := 3 // several places agree
	switch {
	case of == 1:
		share = 2
	case 2*votes <= of:
		share = 0
	case votes < of:
		share = 1
	}
	return uint8(long*shareKinds + share)
}

// odds are how often the drafts of a kind were drawn.
type odds struct {
	chance float32
	n      int
}

func (o *odds) record(hit bool) {
	o.n = min(o.n+1, 40)
	value := float32(0)
	if hit {
		value = 1
	}
	o.chance += (value - o.chance) / float32(o.n+1)
}

// judge compares a sequence's drafts with what it drew, also a draft that no row verified.
func (d *drafter) judge(q *sequence, drawn []int32) {
	for i, token := range drawn {
		if i == len(q.drafts) {
			return
		}
		hit := q.drafts[i].token == token
		if d.odds[q.drafts[i].kind].record(hit); !hit {
			return
		}
	}
}

// choose sets how many of each sequence's drafts the step verifies, in at most as many rows as are
// free.
func (d *drafter) choose(decoding []*sequence, free int) {
	for _, q := range decoding {
		q.drafts, q.verified = q.drafts[:0], 0
	}
	if len(decoding) == 0 || free <= 0 || d.auto && !d.pace.isFresh(len(decoding)) {
		return
	}
	for _, q := range decoding {
		d.propose(q, min(d.most, q.request.length-len(q.tokens)-1))
	}
	if !d.auto {
		for given := true; given && free > 0; {
			given = false
			for _, q := range decoding {
				if q.verified < len(q.drafts) && free > 0 {
					q.verified++
					free--
					given = true
				}
			}
		}
		return
	}
	d.chooseByPace(decoding, free)
}

// gain is the least by which drafts must raise the expected tokens of a second.
const gain = 1.03

// chooseByPace takes the likeliest drafts first, as many as give most tokens in a second.
func (d *drafter) chooseByPace(decoding []*sequence, free int) {
	for _, q := range decoding {
		q.chance = d.chanceOf(q, 0)
	}
	d.picks = d.picks[:0]
	rows, tokens, wanted := len(decoding), float32(len(decoding)), 0
	best := gain * tokens / d.pace.of(rows)
	for range free {
		pick := decoding[0]
		for _, q := range decoding {
			if q.chance > pick.chance {
				pick = q
			}
		}
		if pick.chance < 0.01 {
			break
		}
		d.picks = append(d.picks, pick)
		tokens += pick.chance
		rows++
		pick.verified++
		pick.chance *= d.chanceOf(pick, pick.verified)
		if rate := tokens / d.pace.of(rows); rate > best {
			best, wanted = rate, len(d.picks)
		}
	}
	for _, q := range d.picks[wanted:] {
		q.verified--
	}
}

// chanceOf returns how likely a sequence draws its draft i, if it has drawn those before it; 0 if there
// is none.
func (d *drafter) chanceOf(q *sequence, i int) float32 {
	if i >= len(q.drafts) {
		return 0
	}
	return d.odds[q.drafts[i].kind].chance
}

// pace is how long steps take by their rows, without those of prompts.
type pace struct {
	steps int
	rows  []paceOfRows // [most rows + 1]
}

type paceOfRows struct {
	seconds float32 // near the lower quartile; 0: unknown
	step    int     // when it was measured last
}

const (
	// stale is the number of steps after which choose measures a step without drafts again.
	stale = 64
	// dearer is by how much a row makes a step longer as long as nobody has measured it.
	dearer = 0.04
)

func newPace(rows int) pace { return pace{rows: make([]paceOfRows, rows+1)} }

// isFresh reports whether the time of a step with so many rows was measured lately.
func (p *pace) isFresh(rows int) bool {
	of := p.rows[rows]
	return of.seconds > 0 && p.steps-of.step < stale
}

// record adds the time of a step. Other programs make some steps longer, and none shorter, so it counts
// longer ones less.
func (p *pace) record(rows int, took time.Duration) {
	p.steps++
	of, x := &p.rows[rows], float32(took.Seconds())
	of.step = p.steps
	switch more := x - of.seconds; {
	case of.seconds == 0:
		of.seconds = x
	case more < 0:
		of.seconds += more / 4
	default:
		of.seconds += min(more, of.seconds) / 16
	}
}

// of returns the time of a step with so many rows, between the nearest that are known or beyond them. It
// is 1 if none is known.
func (p *pace) of(rows int) float32 {
	below, above := rows, rows+1
	for below > 0 && p.rows[below].seconds == 0 {
		below--
	}
	if below == rows {
		return p.rows[rows].seconds
	}
	for above < len(p.rows) && p.rows[above].seconds == 0 {
		above++
	}
	switch known := above < len(p.rows); {
	case below == 0 && !known:
		return 1
	case below == 0:
		return p.rows[above].seconds / (1 + dearer*float32(above-rows))
	case !known:
		return p.rows[below].seconds * (1 + dearer*float32(rows-below))
	}
	from, to := p.rows[below].seconds, p.rows[above].seconds
	return from + (to-from)*float32(rows-below)/float32(above-below)
}
