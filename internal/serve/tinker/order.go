package tinker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// job is a numbered request of a model.
type job struct {
	call   *call
	f      *future
	name   string // of the call
	came   time.Time
	bytes  int
	record int64 // its number in the log
}

// maxHeld bounds the requests of a key that wait, in bytes. The next one of a model has room always: the others wait for it.
const maxHeld = 1 << 30

// maxHeldByAll bounds those of all keys.
const maxHeldByAll = 4 << 30

// order takes a request of a model, which runs once those before it have run. It is in the log before it is acknowledged.
// A request whose run fails has used its number.
func (s *Server) order(owner, name string, body []byte) (any, error) {
	c, err := s.calls.read(name, body)
	if err != nil {
		return nil, err
	}
	m, err := s.modelOf(owner, c.model)
	if err != nil {
		return nil, err
	}
	if c.seq < 1 || c.seq == math.MaxInt32 {
		return nil, bad("seq_id is %d: want 1 to %d", c.seq, math.MaxInt32-1)
	}
	return s.submit(owner, futureID(m.id, c.seq), body, tinker.Submitted{ModelID: m.id}, func(f *future) error {
		r := &record{Kind: requested, Seq: c.seq, Call: name, payload: body}
		if name == callPass { // others take little, and what they write says itself whether there is room
			if err := s.all.store.fits(owner, int64(len(body))); err != nil {
				if c, err = refuse(r, c, err); err != nil {
					return err
				}
				r.Sum = f.body[:]
			}
		}
		held, logged := heldBy(owner, modelsOf(s)), s.results.logged(owner)
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.journal == nil:
			return missing("there is no model %.200q yet", m.id)
		case errors.Is(m.ended, errStops):
			return &problem{status: http.StatusServiceUnavailable, text: m.ended.Error()}
		case m.ended != nil:
			return missing("%s is gone: %v", m.id, m.ended)
		case c.seq < m.next:
			return conflict("seq_id %d of %s came too late, or its result is gone: the next is %d", c.seq, m.id, m.next)
		case logged > maxLogged:
			return &problem{status: http.StatusTooManyRequests, text: fmt.Sprintf(
				"this key has %d results that it may fetch: they go an hour after it has fetched them, or with their session", logged)}
		case c.seq != m.next && held+len(body) > maxHeld:
			return &problem{status: http.StatusTooManyRequests, text: fmt.Sprintf("requests of %d MiB of this key wait already", held>>20)}
		case c.seq != m.next && s.waiting.Load()+int64(len(body)) > maxHeldByAll:
			return &problem{status: http.StatusTooManyRequests, text: fmt.Sprintf("requests of %d MiB wait already", s.waiting.Load()>>20)}
		}
		c.slice = m.base.MicroTokens
		r.Slice = c.slice
		number, err := m.journal.append(r)
		if err != nil {
			return full(err)
		}
		m.take(s, &job{c, f, r.Call, time.Now(), len(r.payload) + futureBytes, number})
		return nil
	})
}

// refused is a request that is not kept: its key has no room on the disk. It has used its number, for good.
type refused struct {
	ModelID string `json:"model_id"`
	SeqID   int32  `json:"seq_id"`
	Reason  string `json:"reason"`
	Spoils  bool   `json:"spoils"` // the client wants to step what it would have added to the gradient
}

// refuse returns a call that takes the place of another one, in its record, too.
func refuse(r *record, c *call, reason error) (*call, error) {
	body, err := json.Marshal(refused{c.model, c.seq, reason.Error(), c.redo != nil})
	if err != nil {
		return nil, err
	}
	r.Call, r.payload = callRefuse, body
	return refusedCall(body)
}

// refusedCall reads what refuse has written.
func refusedCall(body []byte) (*call, error) {
	var in refused
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	c := &call{model: in.ModelID, seq: in.SeqID}
	c.run = func(_ context.Context, m *model) (any, error) {
		if in.Spoils {
			m.spoil(in.SeqID, in.Reason)
		}
		return nil, errors.New(in.Reason)
	}
	c.redo = func(ctx context.Context, m *model, _ *tinker.Failed) error {
		_, _ = c.run(ctx, m) // the error is its result
		return nil
	}
	return c, nil
}

// take holds a request until it runs. The mutex is held.
func (m *model) take(s *Server, j *job) {
	seq := j.call.seq
	j.f.waits = func() string { return m.waitsFor(seq) } // the future outlives the data of the request
	m.bytes.Add(int64(j.bytes))
	s.waiting.Add(int64(j.bytes))
	m.held[j.call.seq] = j
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// ordered is a call in JSON. One that cannot be read has used its number, too.
func ordered(body []byte, in any, run func(ctx context.Context, m *model) (any, error)) (*call, error) {
	var at struct {
		ModelID string `json:"model_id"`
		SeqID   int32  `json:"seq_id"`
	}
	if err := read(body, &at); err != nil {
		return nil, err
	}
	err := read(body, in)
	return &call{model: at.ModelID, seq: at.SeqID, run: func(ctx context.Context, m *model) (any, error) {
		if err != nil {
			return nil, err
		}
		return run(ctx, m)
	}}, nil
}

// waitsFor says why a request does not run yet; "" if it does.
func (m *model) waitsFor(seq int32) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next >= seq || m.held[m.next] != nil {
		return ""
	}
	return fmt.Sprintf("seq_id %d waits for %d, which has not come", seq, m.next)
}

// loop runs the requests of a model in their order until ctx ends. It is an error if the model cannot come into memory.
func (m *model) loop(ctx context.Context, s *Server) error {
	for {
		j, gap := m.following(s)
		if j == nil {
			select {
			case <-m.wake:
			case <-gap: // nil waits for ever
				m.giveUp(s)
			case <-m.unused(s):
				m.goOut(ctx, s)
			case <-m.out:
				m.goOut(ctx, s)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		err := m.inRoom(ctx, s, s.opts.Gap, func() error { return m.run(ctx, s, j) })
		if errors.As(err, new(*noRoom)) { // the model waits for memory, on the disk
			result := outcome(nil, &ownError{err})
			m.keep(s, j.f, j.call.seq, result)
			j.f.finish(result, nil)
			continue
		}
		if err != nil {
			if m.session.hasEnded() || ctx.Err() == nil {
				j.f.finish(nil, fmt.Errorf("%s is gone: %w", m.id, err))
			}
			return err
		}
	}
}

// run runs a request, and gives the client its result. It is an error if the model cannot come into memory, or ctx ends.
func (m *model) run(ctx context.Context, s *Server, j *job) error {
	result, entered, err := m.try(ctx, s, j)
	if errors.As(err, new(*trinity.LostError)) && ctx.Err() == nil {
		s.opts.Say(fmt.Sprintf("%s: its trainer is lost, and what it has done since its last state is repeated in a new one: %v", m.id, err))
		if err := m.close(); err != nil {
			s.opts.Say(fmt.Sprintf("%s: %v", m.id, err))
		}
		result, entered, err = m.try(ctx, s, j)
	}
	switch {
	case !entered:
		if ctx.Err() == nil && !errors.As(err, new(*noRoom)) {
			s.lose(m.session, m.id, err)
		}
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	result = outcome(result, err)
	m.keep(s, j.f, j.call.seq, result)
	m.journal.did(j.name)
	isLoaded := j.name == callLoad && err == nil
	if !isLoaded {
		j.f.finish(result, nil)
	}
	if isLoaded || m.isDue() {
		if err := m.cut(ctx, s); err != nil {
			s.opts.Say(fmt.Sprintf("%s: its state is not on the disk, and its log grows: %v", m.id, err))
		}
	}
	if isLoaded {
		j.f.finish(result, nil)
	}
	return nil
}

// try brings the model into memory, unless it is there, and runs a request.
func (m *model) try(ctx context.Context, s *Server, j *job) (result any, entered bool, err error) {
	if err := m.enter(ctx, s); err != nil {
		return nil, false, err
	}
	m.stays = false
	result, err = j.call.run(ctx, m)
	return result, true, err
}

// unused returns when the model is to leave memory; nil if it is out, or stays.
func (m *model) unused(s *Server) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trainer == nil || m.stays {
		return nil
	}
	return time.After(time.Until(m.idle.Add(s.opts.Idle)))
}

// following returns the next request; nil if it has not come, and then when to stop waiting for it.
func (m *model) following(s *Server) (*job, <-chan time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.held[m.next]; j != nil {
		delete(m.held, m.next)
		m.bytes.Add(-int64(j.bytes))
		s.waiting.Add(-int64(j.bytes))
		m.next++
		return j, nil
	}
	if len(m.held) == 0 {
		return nil, nil
	}
	first := time.Now()
	for _, j := range m.held {
		if j.came.Before(first) {
			first = j.came
		}
	}
	if first.Before(m.idle) { // a client may wait for the result of what ran
		first = m.idle
	}
	return nil, time.After(time.Until(first.Add(s.opts.Gap)))
}

// notCome says of a request that others have waited for it in vain.
func notCome(seq int32) string { return fmt.Sprintf("seq_id %d has not come", seq) }

// giveUp fails the requests that wait for one that does not come.
func (m *model) giveUp(s *Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[m.next] != nil {
		return // it has come just now
	}
	lost, waiting := m.next, slices.Sorted(maps.Keys(m.held))
	_, err := m.journal.later(&record{Kind: gapped, Seq: lost, Until: waiting[len(waiting)-1] + 1})
	for _, seq := range waiting {
		j := m.held[seq]
		result := outcome(nil, fmt.Errorf(
			"seq_id %d of %s has not come within %v, and %d waits for it: the client that numbers them has ended or lost it",
			lost, m.id, s.opts.Gap, seq))
		err = errors.Join(err, m.logResult(j.f, seq, result, true))
		j.f.finish(result, nil)
		s.waiting.Add(-int64(j.bytes))
		m.next = seq + 1
	}
	clear(m.held)
	m.bytes.Store(0)
	m.spoilt = notCome(lost)
	if err != nil {
		s.opts.Say(fmt.Sprintf("%s: results wait for the disk: %v", m.id, err))
	}
}
