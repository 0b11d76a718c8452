package tinker

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// future is a call that is computed later.
type future struct {
	id      string
	owner   string
	body    [sha256.Size]byte // of the call, which a client may send again
	reply   tinker.Submitted
	waits   func() string // for what; "" if it is computed. nil waits for nothing
	done    chan struct{} // closed when there is a result
	begun   chan struct{} // closed when it is acknowledged or refused
	refused error
	at      time.Time           // when there was one
	session *session            // of stored
	stored  func() (any, error) // reads the result from the log; nil if that has none

	in      *results // which guards the rest
	result  any      // encoded, or what becomes JSON; nil if it is not in memory
	bytes   int64
	place   *list.Element // nil if it is not in memory
	fetched time.Time     // last
}

// kept is how long a result stays after a client has fetched it, because the answer may be lost, and unfetched how long
// one stays that nobody fetches and no log has.
const kept, unfetched = time.Hour, 24 * time.Hour

// submit returns the answer to a call with an id of its own. begin is called for the first of several equal calls, and the
// others wait for it.
func (s *Server) submit(
	owner, id string, body []byte, reply tinker.Submitted, begin func(*future) error,
) (*tinker.Submitted, error) {
	reply.RequestID = id
	f := newFuture(owner, id, sha256.Sum256(body), reply)
	if known := s.results.add(f); known != nil {
		if known.owner != owner || known.body != f.body {
			return nil, conflict("request %s has come with another body before: a number stands for one request", id)
		}
		<-known.begun
		return &known.reply, known.refused
	}
	defer close(f.begun)
	if f.refused = begin(f); f.refused != nil {
		s.results.drop(f)
	}
	return &f.reply, f.refused
}

func newFuture(owner, id string, body [sha256.Size]byte, reply tinker.Submitted) *future {
	return &future{id: id, owner: owner, body: body, reply: reply, done: make(chan struct{}), begun: make(chan struct{})}
}

// acknowledged returns the future of a request that a service before this one has acknowledged.
func (m *model) acknowledged(s *Server, seq int32, body [sha256.Size]byte) *future {
	id := futureID(m.id, seq)
	f := newFuture(m.session.owner, id, body, tinker.Submitted{RequestID: id, ModelID: m.id})
	close(f.begun)
	s.results.add(f)
	return f
}

// outcome returns a result, or the reason why there is none.
func outcome(result any, err error) any {
	if err == nil {
		return result
	}
	category := "user"
	if isServers(err) {
		category = "server"
	}
	return &tinker.Failed{Error: err.Error(), Category: category}
}

// finish gives the result, or the reason why there is none.
func (f *future) finish(result any, err error) {
	f.result, f.at = outcome(result, err), time.Now()
	f.bytes = futureBytes
	if message, ok := f.result.(encoded); ok {
		f.bytes += int64(len(message))
	}
	f.in.hold(f)
}

// resume gives a result that the log has.
func (f *future) resume() {
	f.at = time.Now()
	f.in.hold(f)
}

// isDone reports whether there is a result.
func (f *future) isDone() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// get returns the result for its client.
func (f *future) get() (any, error) {
	if result, ok := f.in.fetch(f); ok {
		return result, nil
	}
	if f.stored == nil {
		return nil, notKept(f.id)
	}
	return f.stored()
}

// notKept is about a result that was there.
func notKept(id string) error {
	return gone("there is no request %.300s: its result was fetched more than an hour ago, its session has ended, or it was a sample, "+
		"which is not kept for long and not when the service begins anew: sample again", id)
}

// retrieve waits for a result.
func (s *Server) retrieve(ctx context.Context, body []byte) (any, error) {
	var in tinker.RetrieveFuture
	if err := read(body, &in); err != nil {
		return nil, err
	}
	f := s.results.find(in.RequestID)
	if f != nil {
		<-f.begun
	}
	if f == nil || f.refused != nil {
		return nil, notKept(in.RequestID)
	}
	if f.owner != Owner(ctx) {
		return nil, missing("there is no request %.300s", in.RequestID)
	}
	timer := time.NewTimer(s.opts.Hold)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.get()
	case <-timer.C:
		again := &tinker.TryAgain{Type: "try_again", RequestID: in.RequestID, QueueState: "active"}
		if wait, why := s.train.account.pause(f.owner); wait > 0 {
			again.QueueState, again.QueueStateReason = "paused_rate_limit", why
		} else if f.waits != nil {
			again.QueueStateReason = f.waits()
		}
		return again, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// forget drops old results and old snapshots, and ends the sessions of clients that say nothing.
func (s *Server) forget(now time.Time) {
	s.results.forget(now)
	s.mu.Lock()
	var ended []*session
	var had []*sampler
	for id, x := range s.sessions {
		if now.Sub(x.seen) > silence && !x.damaged {
			s.opts.Say(fmt.Sprintf("ends the session %s, whose client has said nothing for %v", id, silence))
			ended = append(ended, x)
			had = append(had, s.end(id)...)
		}
	}
	old := takeOld(s.samplers, now)
	s.mu.Unlock()
	closeAll(had)
	for _, x := range ended {
		s.clear(x)
	}
	for _, x := range old {
		x.close()
		if err := s.all.store.removeSampler(x); err != nil {
			s.opts.Say(err.Error())
		}
	}
}
