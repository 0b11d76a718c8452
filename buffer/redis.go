package buffer

import (
	"context"
	"fmt"
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
	*shared
	redis *redisServer
}

// OpenRedis connects to the server of a path like redis://user:password@host:6379/0.
func OpenRedis(ctx context.Context, s trinity.BufferSpec) (*Redis, error) {
	b := newShared(s)
	server, err := dialRedis(ctx, s, b.ended)
	if err != nil {
		return nil, err
	}
	b.server = server
	return &Redis{b, server}, nil
}

// own runs a script as the trainer.
func (r *redisServer) own(ctx context.Context, script *redis.Script, claim string, values ...any) error {
	answer, err := r.run(ctx, script, append([]any{claim}, values...)...)
	if err == nil && answer == "other" {
		err = fmt.Errorf("%s: %w", r, errTrainer)
	}
	return err
}

func (r *redisServer) took(ctx context.Context, claim string, at sharedPlace) error {
	return r.own(ctx, redisTake, claim, at.Taken, at.Rollouts)
}

func (r *redisServer) claimed(ctx context.Context, claim string, at sharedPlace) error {
	answer, err := r.run(ctx, redisClaim, claim, at.Taken, at.Rollouts)
	switch {
	case err != nil:
		return err
	case answer == "ahead":
		return fmt.Errorf("%s does not have experience %d, after which the checkpoint goes on: was it removed? %s", r, at.Taken, fewer)
	case answer == "trimmed":
		return fmt.Errorf("%s is to be read from experience %d on, and has it no more, because checkpoints were written later: set another name, or go on from one of them", r, at.Taken+1)
	}
	return nil
}

func (r *redisServer) trim(ctx context.Context, claim string, taken int64) error {
	return r.own(ctx, redisTrim, claim, taken)
}

// over tries again though the buffer is closed. If another process is its trainer now, or it is gone, there is nobody to tell.
func (r *redisServer) over(ctx context.Context, claim string) error {
	p := r.policy
	p.Quit = nil
	_, err := asked(ctx, r, p, func(ctx context.Context) (any, error) { return r.once(ctx, redisEnd, claim) })
	return err
}

func (r *redisServer) look(int) <-chan time.Time { return nil }
