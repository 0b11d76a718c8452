package annotate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
)

// Terms are the rules for handing out pairs.
type Terms struct {
	Overlap int           // annotators that judge each pair
	Lease   time.Duration // how long a pair stays reserved for a silent annotator
	Seed    uint64        // decides which answer stands left
}

// Book holds the pairs and the decisions on them. It is safe for concurrent use.
type Book struct {
	terms Terms
	now   func() time.Time

	mu        sync.Mutex
	log       *durable.Log
	lock      *durable.Lock
	pairs     []Pair
	place     map[string]int     // of a pair, by its ID
	decided   [][]Decision       // on each pair, by time
	history   map[string][]int   // pairs that an annotator has decided on, by time
	leases    map[string]lease   // by annotator
	elsewhere map[[2]string]bool // pair and annotator of decisions on pairs that the data lack
}

type lease struct {
	pair  int
	until time.Time
}

// Open opens the book in a directory with its earlier decisions, and creates the directory if
// needed. One process at a time can open a book. Open returns an error if there are earlier
// decisions, but none on the given pairs: then the data are different, and Write would lose the
// rows of the decisions.
func Open(dir string, pairs []Pair, terms Terms) (*Book, error) {
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return nil, unkept(dir, err)
	}
	lock, err := durable.TakeLock(dir, "book", "")
	var other durable.Held
	if errors.As(err, &other) {
		return nil, fmt.Errorf("%s is open in %w: end that one, or give another --out", dir, other)
	}
	if err != nil {
		return nil, unkept(dir, err)
	}
	b := &Book{
		terms: terms, now: time.Now, lock: lock, pairs: pairs, place: map[string]int{}, decided: make([][]Decision, len(pairs)),
		history: map[string][]int{}, leases: map[string]lease{}, elsewhere: map[[2]string]bool{},
	}
	for i, p := range pairs {
		b.place[p.ID] = i
	}
	if err := b.load(dir); err != nil {
		lock.Release()
		return nil, err
	}
	if len(b.elsewhere) > 0 && !slices.ContainsFunc(b.decided, func(d []Decision) bool { return len(d) > 0 }) {
		return nil, errors.Join(fmt.Errorf("%s: none of its %d decisions is on a pair of these data: give --data, --answers, "+
			"--pairs and --seed as before, or another --out", dir, len(b.elsewhere)), b.Close())
	}
	return b, nil
}

func unkept(dir string, err error) error {
	return fmt.Errorf("decisions cannot be kept in %s: %w: let this user write there, or give another --out", dir, err)
}

// load reads the log in the book's directory and keeps it open for appending.
func (b *Book) load(book string) (err error) {
	dir := filepath.Join(book, "decisions")
	if b.log, err = durable.OpenLog(dir); err != nil {
		return unkept(book, err)
	}
	records := durable.ReadLog(dir, 0)
	defer records.Close()
	for {
		record, err := records.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.Join(err, b.log.Close())
		}
		var d Decision
		if err := json.Unmarshal(record, &d); err != nil {
			return errors.Join(fmt.Errorf("%s: record %d: %w", dir, records.Number()-1, err), b.log.Close())
		}
		b.apply(d)
	}
}

// apply applies a record of the log.
func (b *Book) apply(d Decision) {
	at, ok := b.place[d.Pair]
	switch {
	case !ok && d.Verdict == undo:
		delete(b.elsewhere, [2]string{d.Pair, d.Annotator})
	case !ok:
		b.elsewhere[[2]string{d.Pair, d.Annotator}] = true
	case d.Verdict == undo:
		b.decided[at] = slices.DeleteFunc(b.decided[at], func(old Decision) bool { return old.Annotator == d.Annotator })
		b.history[d.Annotator] = slices.DeleteFunc(b.history[d.Annotator], func(p int) bool { return p == at })
	case b.by(at, d.Annotator) != nil: // a repeated decision with other ratings or edits
		*b.by(at, d.Annotator) = d
	default:
		b.decided[at] = append(b.decided[at], d)
		b.history[d.Annotator] = append(b.history[d.Annotator], at)
	}
}

// record writes to the log before it applies the record.
func (b *Book) record(d Decision) error {
	d.Time = b.now().UTC()
	text, err := json.Marshal(d)
	if err == nil {
		_, err = b.log.Append(text)
	}
	if err == nil {
		b.apply(d)
	}
	return err
}

// ErrDecided is the error of a decision that contradicts an earlier decision of the same annotator
// on the pair.
var ErrDecided = errors.New("you have decided on this pair before: undo that first")

// Decide records a decision, which is on the disk when Decide returns. A decision that a client
// repeats, because it lost the acknowledgement, replaces the ratings and edits of the first.
// Decisions on pairs that others have finished meanwhile count too.
func (b *Book) Decide(d Decision) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.place[d.Pair]
	if !ok {
		return mistake("there is no pair %q: reload the page", d.Pair)
	}
	if err := checkName(d.Annotator); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	for i, e := range d.Edits {
		if e != nil && *e == b.pairs[at].Answers[i] {
			d.Edits[i] = nil
		}
	}
	d.Left = b.Left(d.Pair, d.Annotator)
	if old := b.by(at, d.Annotator); old != nil {
		if old.Verdict != d.Verdict {
			return ErrDecided
		}
		if old.Ratings == d.Ratings && sameEdits(old.Edits, d.Edits) {
			return nil
		}
		return b.record(d)
	}
	if b.leases[d.Annotator].pair == at {
		delete(b.leases, d.Annotator)
	}
	return b.record(d)
}

// Undo removes the annotator's last decision and returns it with its pair, which it leases to the
// annotator. It returns nil if there is none.
func (b *Book) Undo(annotator string) (*Shown, error) {
	if err := checkName(annotator); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	history := b.history[annotator]
	if len(history) == 0 {
		return nil, nil
	}
	at := history[len(history)-1]
	old := *b.by(at, annotator)
	if err := b.record(Decision{Pair: old.Pair, Annotator: annotator, Verdict: undo}); err != nil {
		return nil, err
	}
	shown := b.lend(at, annotator)
	shown.Before = &old
	return shown, nil
}

// by returns the annotator's decision on a pair, or nil.
func (b *Book) by(at int, annotator string) *Decision {
	for i, d := range b.decided[at] {
		if d.Annotator == annotator {
			return &b.decided[at][i]
		}
	}
	return nil
}

// Close closes the book.
func (b *Book) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lock.Release()
	return b.log.Close()
}
