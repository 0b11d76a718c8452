package buffer

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
)

func (b *sqlServer) status(ctx context.Context) (sharedStatus, error) {
	var s sharedStatus
	found := false
	err := b.db.Each(ctx, `SELECT b.put, b.put_rollouts - b.taken_rollouts, e.name, e.paused, e.closed FROM trinity_buffers b
		LEFT JOIN trinity_explorers e ON e.buffer = b.name WHERE b.name = ? ORDER BY e.name`, []any{b.name}, func() { s = sharedStatus{} }, func(r *sql.Rows) error {
		found = true
		var name sql.NullString
		var paused, closed sql.NullInt64
		if err := r.Scan(&s.put, &s.rollouts, &name, &paused, &closed); err != nil {
			return err
		}
		if name.Valid {
			s.explorers = append(s.explorers, sharedExplorer{name.String, paused.Int64, closed.Int64 != 0})
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", b.db, errGone)
	}
	return s, err
}

// Sink implements trinity.Buffer. Its Put may exceed the capacity by a delivery, so that none waits half done; one without groups needs no room and
// does not wait.
func (b *SQL) Sink(explorer string) trinity.Sink { return &sqlSink{SQL: b, name: explorer} }

// sqlSink is an explorer's side.
type sqlSink struct {
	*SQL
	name string

	mu       sync.Mutex
	session  string // what the explorer is known by in the database; "" before it has said that it is it
	delivery int64  // number of the last one
	unsure   bool   // whether a later one is there
	paused   int64
	rows     sqlDelivery // the one that is on its way
}

func (s *sqlSink) taken() error {
	return fmt.Errorf("%s: another process has become explorer %s: give each a name of its own (explorer.name)", s.db, s.name)
}

// Resume implements trinity.Sink.
func (s *sqlSink) Resume(ctx context.Context) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cursor, err := s.resume(ctx)
	if err != nil && s.isClosed() {
		err = trinity.ErrEnded
	}
	if err != nil {
		return nil, sharedFailed(err)
	}
	return cursor, nil
}

// resume makes this process the explorer.
func (s *sqlSink) resume(ctx context.Context) (json.RawMessage, error) {
	var cursor []byte
	session, delivery := rand.Text(), int64(0)
	err := s.db.Update(ctx, func(t database.Tx) (bool, error) {
		if err := t.Insert(ctx, "trinity_explorers", "buffer, name", s.SQL.name, s.name); err != nil {
			return false, err
		}
		err := sqlRead(ctx, t, "SELECT delivery, state FROM trinity_explorers WHERE buffer = ? AND name = ?", []any{s.SQL.name, s.name}, &delivery, &cursor)
		if err != nil {
			return false, err
		}
		_, err = t.Exec(ctx, "UPDATE trinity_explorers SET session = ?, paused = 0, closed = 0 WHERE buffer = ? AND name = ?", session, s.SQL.name, s.name)
		return true, err
	})
	if err == nil {
		s.session, s.delivery, s.paused, s.unsure = session, delivery, 0, false
	}
	return cursor, err
}

// begun is resume for who has not called Resume.
func (s *sqlSink) begun(ctx context.Context) error {
	if s.session != "" {
		return nil
	}
	_, err := s.resume(ctx)
	return err
}

// Put implements trinity.Sink.
func (s *sqlSink) Put(ctx context.Context, d trinity.Delivery) error {
	ctx, cancel := withTimeout(ctx, s.putTimeout, "synchronizer.sync_timeout")
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.rows.forget()
	if err := s.rows.encode(d); err != nil {
		return sharedFailed(err)
	}
	p := sqlPut{sqlSink: s, cursor: d.Cursor, needs: d.Needs}
	err := s.begun(ctx)
	if err == nil {
		err = s.await(ctx, "the trainer to make room in the experience buffer", func() (bool, error) { return p.try(ctx) })
	}
	if err != nil && s.isClosed() {
		p.end = trinity.ErrEnded
	}
	if p.end != nil {
		return sharedFailed(p.end)
	}
	if err != nil {
		s.unsure = true
		return sharedFailed(err)
	}
	s.delivery, s.unsure = p.number, false
	return nil
}

// sqlPut is a delivery that is on its way.
type sqlPut struct {
	*sqlSink
	cursor json.RawMessage
	needs  int64

	number int64 // of the delivery; 0 before its first transaction
	end    error // why nothing more is put
}

// try puts the delivery if there is room. Where a transaction before it has, though its answer was lost, it does nothing.
func (p *sqlPut) try(ctx context.Context) (done bool, err error) {
	if p.isClosed() {
		p.end = trinity.ErrEnded
		return true, nil
	}
	err = p.db.Update(ctx, func(t database.Tx) (bool, error) {
		done = false
		var put, rollouts, taken, delivery int64
		var over, closed int
		var session string
		// The buffer's row first, always: who puts waits here for those who put before.
		err := sqlRead(ctx, t, "SELECT put, put_rollouts, taken_rollouts, closed FROM trinity_buffers WHERE name = ?", []any{p.SQL.name}, &put, &rollouts, &taken, &over)
		if err != nil {
			return false, err
		}
		err = sqlRead(ctx, t, "SELECT session, delivery, closed FROM trinity_explorers WHERE buffer = ? AND name = ?", []any{p.SQL.name, p.name}, &session, &delivery, &closed)
		if err != nil {
			return false, err
		}
		if delivery < p.delivery {
			p.end, done = lostDelivery(p.server, p.name, p.delivery), true
			return false, nil
		}
		if p.number == 0 {
			if p.unsure {
				p.delivery = delivery
			}
			p.number = p.delivery + 1
		}
		switch {
		case session != p.session:
			p.end, done = p.taken(), true
		case delivery == p.number:
			done = true
		case over != 0 || closed != 0:
			p.end, done = trinity.ErrEnded, true
		}
		if done || len(p.rows.exps) > 0 && rollouts-taken >= p.capacity {
			return false, nil
		}
		if err := p.rows.insert(ctx, t, p.SQL.name, p.name, p.number, p.needs, put, rollouts); err != nil {
			return false, err
		}
		_, err = t.Exec(ctx, "UPDATE trinity_explorers SET delivery = ?, state = ? WHERE buffer = ? AND name = ?", p.number, text(p.cursor), p.SQL.name, p.name)
		if err != nil {
			return false, err
		}
		_, err = t.Exec(ctx, "UPDATE trinity_buffers SET put = ?, put_rollouts = ? WHERE name = ?", put+int64(len(p.rows.exps)), rollouts+int64(p.rows.rollouts), p.SQL.name)
		done = err == nil
		return done, err
	})
	return done && err == nil, err
}

// text is NULL for what is not there.
func text(json json.RawMessage) any {
	if json == nil {
		return nil
	}
	return string(json)
}

// Pause implements trinity.Sink.
func (s *sqlSink) Pause(ctx context.Context, until int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until == s.paused && s.session != "" {
		return nil
	}
	if err := s.set(ctx, "paused", until); err != nil {
		return err
	}
	s.paused = until
	return nil
}

// Close implements trinity.Sink.
func (s *sqlSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(context.Background(), "closed", 1)
}

// set changes the explorer's row; once the buffer is closed nobody reads it.
func (s *sqlSink) set(ctx context.Context, column string, value int64) error {
	if s.isClosed() {
		return nil
	}
	err := s.begun(ctx)
	var found, delivery int64
	if err == nil {
		err = s.db.Update(ctx, func(t database.Tx) (bool, error) {
			found, err = t.Exec(ctx, "UPDATE trinity_explorers SET "+column+" = ? WHERE buffer = ? AND name = ? AND session = ? AND delivery >= ?", value, s.SQL.name, s.name, s.session, s.delivery)
			if err == nil && found == 0 {
				err = sqlRead(ctx, t, "SELECT delivery FROM trinity_explorers WHERE buffer = ? AND name = ?", []any{s.SQL.name, s.name}, &delivery)
			}
			return true, err
		})
	}
	if err == nil && found == 0 {
		if err = s.taken(); delivery < s.delivery {
			err = lostDelivery(s.server, s.name, s.delivery)
		}
	}
	if err != nil && s.isClosed() {
		return nil
	}
	if err != nil {
		return sharedFailed(err)
	}
	return nil
}
