package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Share is the part of the rows that an explorer has: part Part of Of, counted from 1.
type Share struct {
	Part int `json:"part"`
	Of   int `json:"of"`
}

// maxShares is the most explorers that may divide the rows.
const maxShares = 1 << 12

// String returns the share in the form of explorer.share, such as "1/2".
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Part, s.Of) }

// isValid reports whether there is such a share.
func (s Share) isValid() bool { return s.Part >= 1 && s.Part <= s.Of && s.Of <= maxShares }

// holding is the share that an explorer took when it joined; the zero holding is none.
type holding struct {
	Share
	Rows  string `json:"rows"`  // identifies the rows that the share is of
	Whole bool   `json:"whole"` // every share of the division had an explorer at some time
}

// missing returns the shares that no explorer has. The rows may be divided in several ways, because
// explorers have different tasksets or because somebody changed the division. The trainer waits for
// the missing shares of a division that was never whole, as long as it expects an explorer of that
// division. The lock is held.
func (ex *explorers) missing() (shares []Share) {
	divisions, others := map[int]bool{}, ex.anyExpected()
	for _, e := range ex.byName {
		if !e.lapsed || !others { // the trainer waits for the last explorer, even if it has lost its lease
			divisions[e.has.Of] = true
		}
	}
	for _, of := range slices.Sorted(maps.Keys(divisions)) {
		if !ex.isWhole(of) {
			shares = append(shares, ex.free(of)...)
		}
	}
	return shares
}

// missingText names the missing shares, for people; it returns "" if there are none. The lock is
// held.
func (ex *explorers) missingText() string {
	var missing []string
	for _, share := range ex.missing() {
		missing = append(missing, share.String())
	}
	if len(missing) == 0 {
		return ""
	}
	return "nobody has joined yet for explorer.share " + strings.Join(missing, ", ")
}

// isWhole reports whether every share of a division had an explorer at some time. The lock is held.
func (ex *explorers) isWhole(count int) bool {
	for _, e := range ex.byName {
		if e.has.Of == count && e.has.Whole {
			return true
		}
	}
	return false
}

// free returns the shares of a division that no explorer has. The lock is held.
func (ex *explorers) free(count int) (shares []Share) {
	taken := map[int]bool{}
	for _, e := range ex.byName {
		if e.has.Of == count {
			taken[e.has.Part] = true
		}
	}
	for part := 1; part <= count; part++ {
		if !taken[part] {
			shares = append(shares, Share{part, count})
		}
	}
	return shares
}

// rival returns an explorer of another name that has the share of the same rows that j wants, or is
// about to take it; it returns nil if there is none. The lock is held.
func (ex *explorers) rival(name string, j joining) *explorer {
	for _, e := range ex.byName {
		has := e.has.Share == j.Share && e.has.Rows == j.Rows
		joins := e.session != nil && e.Share == j.Share && e.Rows == j.Rows
		if e.name != name && j.Share.Of > 1 && (has || joins) {
			return e
		}
	}
	return nil
}

// assign gives an explorer the share that it joined with. The error is a share other than the one
// whose rows the explorer's cursor counts; the session ends then. complete reports whether this was
// the last missing share of its division. The lock is held.
func (ex *explorers) assign(e *explorer, delivered int64) (complete bool, err error) {
	if had := e.has.Share; had != e.Share && had.Of > 0 && delivered > 0 {
		e.end(errReplaced)
		return false, fmt.Errorf("%w: explorer %s has explored the share %s of the rows, and now would have %s: "+
			"set explorer.share back, or give this one another explorer.name", errConflict, e.name, had, e.Share)
	}
	e.has = holding{Share: e.Share, Rows: e.Rows}
	if ex.isWhole(e.has.Of) || len(ex.free(e.has.Of)) > 0 {
		return false, nil
	}
	for _, other := range ex.byName {
		other.has.Whole = other.has.Whole || other.has.Of == e.has.Of
	}
	return true, nil
}
