package buffer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
)

// shared is the trainer's side of a first-in, first-out buffer on a server, which explorers and the trainer reach from processes of their own. Of several
// processes that want to be the trainer the last one is it: the others' next access is an error.
type shared struct {
	Reading
	server     sharedServer
	putTimeout time.Duration
	capacity   int64 // rollouts, from which on Put waits

	mu     sync.Mutex // guards what follows
	window            // what was read and not taken; a position is the number and the rollout's number
	loaded int64      // number of the experience that was read last
	next   sharedPlace
	claim  string // what the trainer is known by on the server; "" before it has said that it is it

	ended chan struct{} // closed by Close
	close func() error
}

// sharedServer is what keeps a shared buffer. Its errors say where it is.
type sharedServer interface {
	fmt.Stringer // where it is, and the buffer's name
	status(ctx context.Context) (sharedStatus, error)
	// entries reads experiences after a number, at most limit; fewer are all that there are.
	entries(ctx context.Context, after int64, limit int) ([]sharedEntry, error)
	// claimed makes the process of a claim the trainer, which goes on behind a place.
	claimed(ctx context.Context, claim string, at sharedPlace) error
	// took says what was taken, for those who wait for room, and for people; errTrainer of who is the trainer no more.
	took(ctx context.Context, claim string, at sharedPlace) error
	// trim forgets experiences up to a number; errTrainer as took.
	trim(ctx context.Context, claim string, taken int64) error
	// over says that nothing more is taken; it is no error that there is nobody to tell.
	over(ctx context.Context, claim string) error
	// changed is closed when something has changed; look gives the nth time to look without that, nil for none.
	changed() <-chan struct{}
	look(n int) <-chan time.Time
	hangUp() error
}

// sharedPlace is where a trainer reads on.
type sharedPlace struct {
	Taken    int64 `json:"taken"`    // number of the experience that was taken last
	Rollouts int64 `json:"rollouts"` // and of its rollout
}

// sharedEntry is an experience with its numbers.
type sharedEntry struct {
	number, rollout, needs int64
	experience             *trinity.Experience
}

// newShared makes the trainer's side; the server is set before it is used.
func newShared(s trinity.BufferSpec) *shared {
	b := &shared{
		Reading: Reading{ByRollout: s.ByRollout, TakeTimeout: s.TakeTimeout}, putTimeout: s.PutTimeout, capacity: int64(s.Capacity), ended: make(chan struct{}),
	}
	b.close = sync.OnceValue(b.end)
	return b
}

// fewer is what to do where a server has less than a checkpoint goes on from.
const fewer = "Restore the server's copy, remove the checkpoints that are newer than what it has, or give the run another name to begin anew"

// again is what to do where a server has lost what came last, as in a power cut or when another takes its place.
const again = "start trainer and explorers again, which go on from what it has, or restore its copy"

// lostDelivery says that an explorer's last delivery is not there, though the server had acknowledged it.
func lostDelivery(server fmt.Stringer, explorer string, number int64) error {
	return fmt.Errorf("%s: delivery %d of explorer %s was acknowledged, and the server has lost it: %s", server, number, explorer, again)
}

var errTrainer = errors.New("another process has become its trainer: there can be one only")

func sharedFailed(err error) error { return fmt.Errorf("experience buffer: %w", err) }

// Take implements trinity.Source.
func (b *shared) Take(ctx context.Context, n int, published int64) ([]*trinity.Experience, error) {
	ctx, cancel := withTimeout(ctx, b.TakeTimeout, "buffer.trainer_input.experience_buffer.max_read_timeout")
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claim == "" {
		if err := b.restore(ctx, sharedPlace{}, nil); err != nil {
			return nil, sharedFailed(err)
		}
	}
	var end int
	var over bool
	waiting := fmt.Sprintf("the explorer to put %d %s into the experience buffer", n, b.unit())
	err := b.await(ctx, waiting, func() (bool, error) {
		var whole bool
		if err := b.fetch(ctx, n); err != nil {
			return false, err
		}
		if end, whole = b.window.end(n, b.ByRollout, published); whole || end < len(b.pending) {
			return true, nil
		}
		s, err := b.server.status(ctx)
		if err != nil {
			return false, err
		}
		if s.put < b.loaded {
			return false, fmt.Errorf("%s: it has %d experiences, and %d were read: the server has lost what came last: %s", b.server, s.put, b.loaded, again)
		}
		if err := b.fetch(ctx, n); err != nil { // again: who puts nothing more has put all that there is now
			return false, err
		}
		if b.window.held(b.ByRollout) <= n && b.loaded < s.put { // though all were read
			return false, b.missing(s.put)
		}
		end, whole = b.window.end(n, b.ByRollout, published)
		over = s.closed()
		return whole || end < len(b.pending) || s.barred(published) || over, nil
	})
	if b.isClosed() {
		return nil, io.EOF
	}
	if err != nil {
		return nil, sharedFailed(err)
	}
	if over && len(b.pending) == 0 {
		return nil, io.EOF
	}
	if end == 0 {
		return nil, nil
	}
	last := b.pending[end-1].after
	at := sharedPlace{last.Record, int64(last.Index)}
	if err := b.server.took(ctx, b.claim, at); err != nil {
		return nil, sharedFailed(err)
	}
	out, _ := b.take(end)
	b.next = at
	return out, nil
}

// fetch reads experiences until more than n of what Take counts are in memory, or all.
func (b *shared) fetch(ctx context.Context, n int) error {
	for b.window.held(b.ByRollout) <= n {
		limit := max(n+1-b.window.held(b.ByRollout), 16)
		entries, err := b.server.entries(ctx, b.loaded, limit)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.number != b.loaded+1 {
				return b.missing(e.number - 1)
			}
			b.hold(e.experience, e.needs, position{Record: e.number, Index: int(e.rollout)})
			b.loaded = e.number
		}
		if len(entries) < limit {
			return nil
		}
	}
	return nil
}

// missing says that experiences up to a number, which the trainer has not read, are not there.
func (b *shared) missing(last int64) error {
	return fmt.Errorf("%s: the experiences %d to %d are missing, which nobody has taken: were they removed? set another name, or bring them back", b.server, b.loaded+1, last)
}

// await blocks until ready holds; its error says who was waited for and what the buffer holds.
func (b *shared) await(ctx context.Context, what string, ready func() (bool, error)) error {
	for n := 0; ; n++ {
		changed := b.server.changed()
		ok, err := ready()
		if ctx.Err() != nil && !ok {
			return fmt.Errorf("waiting for %s, which holds %s: %w", what, b.holds(ctx), context.Cause(ctx))
		}
		if err != nil || ok {
			return err
		}
		select {
		case <-changed:
		case <-b.server.look(n):
		case <-b.ended:
			return trinity.ErrEnded
		case <-ctx.Done():
		}
	}
}

// holds says what is in the buffer once a wait is over.
func (b *shared) holds(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s, err := b.server.status(ctx)
	if err != nil {
		return fmt.Sprintf("what is not known (%v)", err)
	}
	return s.String()
}

// State implements trinity.Source.
func (b *shared) State() (trinity.SourceState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cursor, err := json.Marshal(b.next)
	return trinity.SourceState{Cursor: cursor, Pending: b.loose()}, err
}

// Restore implements trinity.Source: what is pending comes first, then what the server has after the cursor. The zero state is the buffer's beginning.
func (b *shared) Restore(s trinity.SourceState) error {
	var at sharedPlace
	if len(s.Cursor) > 0 {
		if err := readState(s.Cursor, &at); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.restore(context.Background(), at, s.Pending); err != nil {
		return sharedFailed(err)
	}
	return nil
}

// restore makes this process the trainer, which goes on behind a place, after what is in its checkpoint alone.
func (b *shared) restore(ctx context.Context, at sharedPlace, loose []*trinity.Experience) error {
	claim := rand.Text()
	if err := b.server.claimed(ctx, claim, at); err != nil {
		return err
	}
	b.window, b.next, b.loaded, b.claim = window{}, at, at.Taken, claim
	b.holdLoose(loose, position{Record: at.Taken, Index: int(at.Rollouts)})
	return nil
}

// Trim implements trinity.Buffer.
func (b *shared) Trim(s trinity.SourceState) error {
	var at sharedPlace
	if err := readState(s.Cursor, &at); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.server.trim(context.Background(), b.claim, at.Taken); err != nil {
		return sharedFailed(err)
	}
	return nil
}

// Close implements trinity.Buffer. Of a process that was the trainer it tells the explorers of others.
func (b *shared) Close() error { return b.close() }

func (b *shared) end() error {
	close(b.ended) // wakes a Take that waits, which has the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.claim != "" {
		err = b.server.over(context.Background(), b.claim)
	}
	return errors.Join(err, b.server.hangUp())
}

func (b *shared) isClosed() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}
