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

	"github.com/redis/go-redis/v9"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Buffers.Register("redis", "A first-in, first-out buffer on a Redis server (path redis://user:password@host:6379/0, rediss:// with TLS), which explorers and the trainer reach from "+
		"processes of their own. The server must keep an append-only file; with appendfsync always what was put survives a power cut too. People read its stream trinity:{name}:experiences.",
		func() trinity.BufferOpener { return &redisOpener{} })
}

type redisOpener struct{}

// OpenBuffer implements trinity.BufferOpener.
func (redisOpener) OpenBuffer(ctx context.Context, s trinity.BufferSpec) (trinity.Buffer, error) {
	return OpenRedis(ctx, s)
}

// Redis is a first-in, first-out buffer on a Redis server, of version 6.2 or newer. Its keys begin with trinity:{name}: the hash without more has the counts and
// the explorers, :experiences is a stream with an entry for each experience, and :news one whose last entries say that something has changed, for who waits.
//
// A delivery is put by one script, which the server executes as a whole. What is acknowledged is as durable as the server's appendfsync makes it: a
// server that keeps no append-only file, or that may evict keys, is refused. Trimmed experiences are gone from the server.
type Redis struct {
	Reading
	putTimeout time.Duration
	capacity   int64

	server *redisServer

	mu     sync.Mutex // of the trainer's side
	window            // what was read and not taken; a position is the number and the rollout's number
	loaded int64      // number of the experience that was read last
	next   redisCursor
	claim  string // what the trainer is known by on the server; "" before it has said that it is it

	close func() error
}

// redisCursor is where a trainer reads on.
type redisCursor struct {
	Taken int64 `json:"taken"` // number of the experience that was taken last
}

// OpenRedis connects to the server of a path like redis://user:password@host:6379/0.
func OpenRedis(ctx context.Context, s trinity.BufferSpec) (*Redis, error) {
	server, err := dialRedis(ctx, s)
	if err != nil {
		return nil, err
	}
	b := &Redis{
		Reading: Reading{ByRollout: s.ByRollout, TakeTimeout: s.TakeTimeout}, putTimeout: s.PutTimeout,
		capacity: int64(s.Capacity), server: server,
	}
	b.close = sync.OnceValue(b.end)
	return b, nil
}

// Take implements trinity.Source.
func (b *Redis) Take(ctx context.Context, n int, published int64) ([]*trinity.Experience, error) {
	ctx, cancel := withTimeout(ctx, b.TakeTimeout, "buffer.trainer_input.experience_buffer.max_read_timeout")
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.claim == "" {
		if err := b.restore(ctx, redisCursor{}); err != nil {
			return nil, redisFailed(err)
		}
	}
	var end int
	var over bool
	waiting := fmt.Sprintf("the explorer to put %d %s into the experience buffer", n, b.unit())
	err := b.server.await(ctx, waiting, func(s *sharedStatus) (bool, error) {
		now, err := b.server.status(ctx) // before the experiences: who puts no more has put them all
		if err != nil {
			return false, err
		}
		*s = now
		if err := b.fetch(ctx, n); err != nil {
			return false, err
		}
		var whole bool
		end, whole = b.window.end(n, b.ByRollout, published)
		over = s.closed()
		return whole || end < len(b.pending) || s.barred(published) || over, nil
	})
	if b.server.isClosed() {
		return nil, io.EOF
	}
	if err != nil {
		return nil, redisFailed(err)
	}
	if over && len(b.pending) == 0 {
		return nil, io.EOF
	}
	if end == 0 {
		return nil, nil
	}
	at := b.pending[end-1].after
	if err := b.own(ctx, redisTake, at.Record, at.Index); err != nil {
		return nil, redisFailed(err)
	}
	out, _ := b.take(end)
	b.next.Taken = at.Record
	return out, nil
}

// fetch reads experiences until more than n of what Take counts are in memory, or all.
func (b *Redis) fetch(ctx context.Context, n int) error {
	for b.window.held(b.ByRollout) <= n {
		limit := max(n+1-b.window.held(b.ByRollout), 16)
		entries, err := b.server.entries(ctx, b.loaded+1, limit)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.number != b.loaded+1 {
				return fmt.Errorf("%s: after experience %d comes %d: was the stream changed?", b.server, b.loaded, e.number)
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

func redisFailed(err error) error { return fmt.Errorf("experience buffer: %w", err) }

var errRedisTrainer = errors.New("another process has become its trainer: there can be one only")

// own runs a script as the trainer.
func (b *Redis) own(ctx context.Context, script *redis.Script, values ...any) error {
	answer, err := b.server.run(ctx, script, append([]any{b.claim}, values...)...)
	if err == nil && answer == "other" {
		err = errRedisTrainer
	}
	return err
}

// State implements trinity.Source.
func (b *Redis) State() (trinity.SourceState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	cursor, err := json.Marshal(b.next)
	return trinity.SourceState{Cursor: cursor}, err
}

// Restore implements trinity.Source. The zero state is the buffer's beginning.
func (b *Redis) Restore(s trinity.SourceState) error {
	var at redisCursor
	if len(s.Cursor) > 0 {
		if err := readState(s.Cursor, &at); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.restore(context.Background(), at); err != nil {
		return redisFailed(err)
	}
	return nil
}

// restore makes this process the trainer, which goes on behind a place.
func (b *Redis) restore(ctx context.Context, at redisCursor) error {
	claim := rand.Text()
	answer, err := b.server.run(ctx, redisClaim, claim, at.Taken)
	switch {
	case err != nil:
		return err
	case answer == "ahead":
		return fmt.Errorf("%s does not have experience %d, after which the checkpoint goes on: was it removed?", b.server, at.Taken)
	case answer == "trimmed":
		return fmt.Errorf("%s is to be read from experience %d on, and has it no more, because checkpoints were written later: set another name, or go on from one of them", b.server, at.Taken+1)
	}
	b.window, b.next, b.loaded, b.claim = window{}, at, at.Taken, claim
	return nil
}

// Trim implements trinity.Buffer.
func (b *Redis) Trim(s trinity.SourceState) error {
	var at redisCursor
	if err := readState(s.Cursor, &at); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.server.run(context.Background(), redisTrim, at.Taken); err != nil {
		return redisFailed(err)
	}
	return nil
}

// Close implements trinity.Buffer. Of a process that was the trainer it tells the explorers of others.
func (b *Redis) Close() error { return b.close() }

func (b *Redis) end() error {
	close(b.server.ended) // wakes a Take that waits, which has the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.claim != "" { // if another process is its trainer now, or it is gone, there is nobody to tell
		ctx := context.Background()
		err = b.server.insist(ctx, nil, func() error { return redisEnd.Run(ctx, b.server.client, b.server.keys, b.claim).Err() })
	}
	return errors.Join(err, b.server.hangUp())
}
