package annotate

import (
	"crypto/sha256"
	"fmt"
)

// Shown is a pair as an annotator sees it.
type Shown struct {
	Pair
	Left   int       // which answer stands left, 0 or 1
	Before *Decision // the decision that the annotator has taken back; nil if there is none
}

// Next returns the pair that the annotator should judge and leases it to them. It is the same pair
// until they decide or the lease expires, then the first pair with too few judgements and leases of
// others. Asking again renews the lease. Next returns nil if there is no such pair now.
func (b *Book) Next(annotator string) (*Shown, error) {
	if err := checkName(annotator); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	promised := b.promised(annotator)
	if held, ok := b.leases[annotator]; ok && b.wanting(held.pair, annotator, promised) {
		return b.lend(held.pair, annotator), nil
	}
	delete(b.leases, annotator)
	for at := range b.pairs {
		if b.wanting(at, annotator, promised) {
			return b.lend(at, annotator), nil
		}
	}
	return nil, nil
}

// promised counts the leases of others on each pair.
func (b *Book) promised(annotator string) map[int]int {
	n := map[int]int{}
	for who, l := range b.leases {
		if who != annotator && l.until.After(b.now()) {
			n[l.pair]++
		}
	}
	return n
}

// wanting reports whether a pair needs a judgement from the annotator. Skips do not count as
// judgements.
func (b *Book) wanting(at int, annotator string, promised map[int]int) bool {
	return b.by(at, annotator) == nil && b.votes(at)+promised[at] < b.terms.Overlap
}

func (b *Book) votes(at int) int {
	n := 0
	for _, d := range b.decided[at] {
		if d.Verdict != Skip {
			n++
		}
	}
	return n
}

// lend leases a pair to an annotator.
func (b *Book) lend(at int, annotator string) *Shown {
	b.leases[annotator] = lease{pair: at, until: b.now().Add(b.terms.Lease)}
	return &Shown{Pair: b.pairs[at], Left: b.Left(b.pairs[at].ID, annotator)}
}

// Left returns the index of the answer that stands left for an annotator, 0 or 1. It depends only
// on seed, pair and annotator.
func (b *Book) Left(pair, annotator string) int {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", b.terms.Seed, pair, annotator))
	return int(sum[0] & 1)
}
