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
const verifiedRows = 64

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
	times []float32 // [most rows]
	idle  int       // consecutive steps without drafts
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
	d := &drafter{most: opts.Drafts, auto: opts.Drafts == Automatic, texts: newTexts(textParts), pace: newPace(opts.decodedRows()),
		times: make([]float32, opts.decodedRows())}
	if d.auto {
		d.most = MostDrafts
	}
	for i := range d.odds {
		d.odds[i].chance = 0.5
	}
	return d
}

// learn compares the last n tokens of a sequence with its drafts, and adds them to the texts.
func (d *drafter) learn(q *sequence, n int) {
	tokens := q.tokens[len(q.tokens)-n:]
	d.judge(q, tokens)
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
	if len(decoding) == 0 || free <= 0 {
		return
	}
	if d.idle++; d.auto && (!d.pace.isFresh(len(decoding)) || d.idle > patient && d.idle%patient > 0) {
		return
	}
	most := min(d.most, (2*free+len(decoding)-1)/len(decoding)) // twice what each could have
	for _, q := range decoding {
		d.propose(q, min(most, q.request.length-len(q.tokens)-1))
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

const (
	// gain is the least by which drafts must raise the expected tokens of a second.
	gain = 1.03
	// patient is the number of steps without drafts after which only each so manyth step looks for some.
	patient = 8
)

// chooseByPace takes the likeliest drafts first, as many as give most tokens in a second.
func (d *drafter) chooseByPace(decoding []*sequence, free int) {
	for _, q := range decoding {
		q.chance = d.chanceOf(q, 0)
	}
	d.picks = d.picks[:0]
	times := d.times[:free+1]
	d.pace.curve(times, len(decoding))
	tokens, wanted := float32(len(decoding)), 0
	best := gain * tokens / times[0]
	for i := range free {
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
		pick.verified++
		pick.chance *= d.chanceOf(pick, pick.verified)
		if rate := tokens / times[i+1]; rate > best {
			best, wanted = rate, len(d.picks)
		}
	}
	if wanted > 0 {
		d.idle = 0
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
	seconds float32 // near the lower quartile
	n       int     // how often it was measured
	step    int     // when last
}

const (
	// stale is the number of steps after which choose measures a step without drafts again.
	stale = 64
	// A time of more rows counts if it was measured trusted times, the last time outdatedPace steps ago at
	// most: one step that other programs have made long must not end all drafts.
	trusted, outdatedPace = 3, 512
	// leastPace is the time of a step that is too short for the machine's clock: a time of 0 would never grow.
	leastPace = 1e-6
	// dearer is the time that one more row takes, as a part of a step without drafts. It counts for
	// numbers of rows that no step has measured.
	dearer = 0.04
)

func newPace(rows int) pace { return pace{rows: make([]paceOfRows, rows+1)} }

// isFresh reports whether the time of a step with so many rows was measured lately.
func (p *pace) isFresh(rows int) bool {
	of := p.rows[rows]
	return of.n > 0 && p.steps-of.step < stale
}

// isTrusted reports whether the time of a step with so many rows counts.
func (p *pace) isTrusted(rows int) bool {
	of := p.rows[rows]
	return of.n >= trusted && p.steps-of.step < outdatedPace
}

// record adds the time of a step. Other programs make some steps longer, and none shorter, so it counts
// longer ones less.
func (p *pace) record(rows int, took time.Duration) {
	p.steps++
	of, x := &p.rows[rows], max(float32(took.Seconds()), leastPace)
	of.n++
	of.step = p.steps
	switch more := x - of.seconds; {
	case of.n == 1:
		of.seconds = x
	case more < 0:
		of.seconds += more / 4
	default:
		of.seconds += min(more, of.seconds) / 16
	}
}

// curve sets times to those of steps with rows from a number on, which isFresh knows: as measured, in
// proportion between measured ones, and a bit more for each row behind them.
func (p *pace) curve(times []float32, rows int) {
	times[0] = p.rows[rows].seconds
	for known, i := 0, 1; i < len(times); i++ {
		if times[i] = times[known] + dearer*times[0]*float32(i-known); !p.isTrusted(rows + i) {
			continue
		}
		times[i] = p.rows[rows+i].seconds
		for j := known + 1; j < i; j++ {
			times[j] = times[known] + (times[i]-times[known])*float32(j-known)/float32(i-known)
		}
		known = i
	}
}
