package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/weights"
)

// explorer is what the trainer knows of one explorer.
type explorer struct {
	name string
	sink trinity.Sink

	work           sync.Mutex // held by the request that changes what the buffer has of the explorer; it guards:
	delivered      int64      // number of the last delivery
	pausedInBuffer int64      // version until which the buffer believes that the explorer pauses

	// The lock of explorers guards the rest.
	joining
	session *session // nil while no process has the name
	heard   time.Time
	gone    bool // the connection has ended
	lapsed  bool // the lease has expired
	closed  bool
	has     holding
	using   weights.Version
}

// isExpected reports whether the explorer has joined or is about to join.
func (e *explorer) isExpected() bool { return !e.lapsed && !e.closed }

// end ends the explorer's session, if it has one.
func (e *explorer) end(why error) {
	if e.session != nil {
		e.session.end(why)
		e.session = nil
	}
}

// String says who the explorer is and how it is, for people.
func (e *explorer) String() string {
	who := e.name
	if e.PID != 0 {
		who += fmt.Sprintf(" (host %s, pid %d)", e.Host, e.PID)
	}
	switch {
	case e.closed:
		return who + " has ended"
	case e.PID == 0:
		return who + " has not joined again"
	}
	who += " was last heard from " + ago(e.heard)
	if e.lapsed {
		who += " and has lost its lease"
	}
	return who
}

// resume returns the cursor after the explorer's last delivery in the buffer. e.work is held.
func (e *explorer) resume(ctx context.Context, paused int64) (json.RawMessage, error) {
	delivered, cursor, err := e.sink.Resume(ctx)
	if err != nil {
		return nil, err
	}
	e.delivered = delivered
	return cursor, e.pause(ctx, paused)
}

// pause tells the buffer until which version the explorer puts nothing. e.work is held.
func (e *explorer) pause(ctx context.Context, until int64) error {
	if err := e.sink.Pause(ctx, until); err != nil {
		return err
	}
	e.pausedInBuffer = until
	return nil
}

// explorers are the explorers of a run, and a lock with a place to wait until they change.
type explorers struct {
	mu      sync.Mutex
	changed wait.Point
	byName  map[string]*explorer
}

// await blocks until ready returns true, and returns with the lock held. The error is the cause of
// ctx's end; the lock is not held then.
func (ex *explorers) await(ctx context.Context, ready func() bool) error {
	return ex.changed.Await(ctx, &ex.mu, ready)
}

// add returns the explorer of a name. It adds one with a sink of the buffer if there is none. The
// lock is held.
func (ex *explorers) add(name string, b trinity.Buffer) *explorer {
	e := ex.byName[name]
	if e == nil {
		e = &explorer{name: name, sink: b.Sink(name), heard: time.Now()}
		ex.byName[name] = e
	}
	return e
}

// anyExpected reports whether an explorer has joined or is about to join. The lock is held.
func (ex *explorers) anyExpected() bool {
	for _, e := range ex.byName {
		if e.isExpected() {
			return true
		}
	}
	return false
}

// oldestInUse returns the oldest version that an explorer uses. The lock is held.
func (ex *explorers) oldestInUse() int64 {
	oldest, others := int64(math.MaxInt64), ex.anyExpected()
	for _, e := range ex.byName {
		if e.isExpected() || !others && !e.closed {
			oldest = min(oldest, e.using.Number)
		}
	}
	return oldest
}

// present names the explorers that are connected and have not closed; it returns "" if there are
// none. The lock is held.
func (ex *explorers) present() string {
	var who []string
	for _, e := range ex.byName {
		if e.isExpected() && !e.gone {
			who = append(who, "explorer "+e.String())
		}
	}
	slices.Sort(who)
	return strings.Join(who, "; ")
}

// String says of each explorer who it is, when the trainer last heard from it, and whether it has
// lost its lease. It also names the shares that nobody has.
func (ex *explorers) String() string {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	if len(ex.byName) == 0 {
		return "no explorer has joined"
	}
	var lines []string
	if missing := ex.missingText(); missing != "" {
		lines = append(lines, missing)
	}
	for _, e := range ex.byName {
		lines = append(lines, "explorer "+e.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// lapse ends the sessions whose lease has expired. It returns the explorers that lost their lease
// and the time until the next lease may expire. The lock is held.
func (ex *explorers) lapse(lease time.Duration) (lost []*explorer, next time.Duration) {
	next = time.Hour
	for _, e := range ex.byName {
		if !e.isExpected() {
			continue
		}
		if left := time.Until(e.heard.Add(lease)); left > 0 {
			next = min(next, left)
			continue
		}
		e.lapsed = true
		e.end(errLapsed)
		lost = append(lost, e)
		ex.changed.Signal()
	}
	return lost, next
}
