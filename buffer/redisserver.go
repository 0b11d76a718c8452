package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/experience"
)

// redisServer is one buffer of a Redis server.
type redisServer struct {
	client  *redis.Client
	keys    []string // hash, experiences, news
	where   string   // for people, without password
	retries int
	rest    time.Duration // between them

	gate    // signalled with every piece of news
	ended   <-chan struct{}
	hearing chan struct{} // closed when nobody listens for news any more
}

func init() { redis.SetLogger(silence{}) }

// silence is in place of what the client would print: every failure is an error as well.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// redisPatience is how long a request may take: a large delivery is flushed to a disk.
const redisPatience = 30 * time.Second

// dialRedis connects; ended is closed when the buffer is.
func dialRedis(ctx context.Context, s trinity.BufferSpec, ended <-chan struct{}) (*redisServer, error) {
	options, err := redis.ParseURL(s.Path)
	if err != nil { // the error may have the password in it
		return nil, errors.New("its path is no URL of a Redis server: want redis://user:password@host:6379/0, or rediss:// with TLS")
	}
	options.MaxRetries, options.DialerRetries = -1, 1 // try does that
	options.ReadTimeout, options.WriteTimeout = redisPatience, redisPatience
	key := "trinity:{" + s.Name + "}"
	r := &redisServer{
		client: redis.NewClient(options), keys: []string{key, key + ":experiences", key + ":news"},
		where: fmt.Sprintf("redis://%s/%d, buffer %s", options.Addr, options.DB, s.Name), retries: s.Retries, rest: s.RetryInterval,
		gate: newGate(), ended: ended, hearing: make(chan struct{}),
	}
	from, err := r.begin(ctx)
	if err != nil {
		return nil, errors.Join(err, r.client.Close())
	}
	go r.listen(from)
	return r, nil
}

func (r *redisServer) String() string { return r.where }

// begin looks whether the server keeps what it acknowledges, makes the buffer where there is none, and says where the news begin.
func (r *redisServer) begin(ctx context.Context) (from string, err error) {
	err = r.try(ctx, func() error {
		info, err := r.client.Info(ctx, "persistence", "memory").Result()
		if err != nil {
			return err
		}
		if err := keeps(info); err != nil {
			return err
		}
		if err := redisMake.Run(ctx, r.client, r.keys).Err(); err != nil {
			return err
		}
		last, err := r.client.XRevRangeN(ctx, r.keys[2], "+", "-", 1).Result()
		if from = "0-0"; len(last) > 0 {
			from = last[0].ID
		}
		return err
	})
	return from, err
}

// keeps refuses a server that may lose what it has acknowledged.
func keeps(info string) error {
	says := map[string]string{}
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			says[key] = value
		}
	}
	switch {
	case says["loading"] == "1":
		return errRedisLoading // it says that it keeps no file, then
	case says["aof_enabled"] == "0":
		return errors.New("the server keeps no append-only file and would lose experiences when it stops: set its appendonly to yes, and appendfsync to always")
	case says["maxmemory"] != "0" && strings.HasPrefix(says["maxmemory_policy"], "allkeys"):
		return fmt.Errorf("the server removes keys when its memory is full, by maxmemory-policy %s: set that to noeviction", says["maxmemory_policy"])
	}
	return nil
}

// try does something until it does not fail for a reason that may pass, so often as the buffer's retries allow, and until the buffer is closed.
func (r *redisServer) try(ctx context.Context, do func() error) error {
	return r.insist(ctx, r.ended, do)
}

func (r *redisServer) insist(ctx context.Context, until <-chan struct{}, do func() error) error {
	for n := 0; ; n++ {
		err := do()
		if err == nil || ctx.Err() != nil || !passes(err) {
			return r.named(ctx, err)
		}
		if n >= r.retries {
			return fmt.Errorf("%s: tried %d times, %v apart (max_retry_times, max_retry_interval): %w", r, n+1, r.rest, err)
		}
		select {
		case <-time.After(r.rest):
		case <-until:
			return r.named(ctx, err)
		case <-ctx.Done():
		}
	}
}

// named says of an error where it was.
func (r *redisServer) named(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", r, context.Cause(ctx))
	}
	return fmt.Errorf("%s: %w", r, err)
}

// passes reports whether an error may be over soon: no connection, or a server that has just been started.
func passes(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errRedisLoading) ||
		strings.HasPrefix(err.Error(), "LOADING") || strings.HasPrefix(err.Error(), "MASTERDOWN")
}

var errRedisLoading = errors.New("the server is reading its file")

var errRedisGone = errors.New("the buffer is not there any more: the server has lost it, or somebody has removed it")

// run executes a script, again where its answer was lost: each does nothing the second time.
func (r *redisServer) run(ctx context.Context, script *redis.Script, values ...any) (answer any, err error) {
	err = r.try(ctx, func() error {
		answer, err = script.Run(ctx, r.client, r.keys, values...).Result()
		if err == nil && answer == "gone" {
			err = errRedisGone
		}
		return err
	})
	return answer, err
}

func (r *redisServer) entries(ctx context.Context, after int64, limit int) (entries []sharedEntry, err error) {
	var messages []redis.XMessage
	err = r.try(ctx, func() error {
		messages, err = r.client.XRangeN(ctx, r.keys[1], fmt.Sprintf("%d-0", after+1), "+", int64(limit)).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		e, err := readEntry(m)
		if err != nil {
			return nil, fmt.Errorf("%s, experience %s: %w", r, m.ID, err)
		}
		if after++; e.number != after {
			return nil, fmt.Errorf("%s: after experience %d comes %d: was the stream changed?", r, after-1, e.number)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func readEntry(m redis.XMessage) (e sharedEntry, err error) {
	number, _, _ := strings.Cut(m.ID, "-")
	for _, f := range []struct {
		to   *int64
		text any
	}{{&e.number, number}, {&e.rollout, m.Values["rollout"]}, {&e.needs, m.Values["needs"]}} {
		if *f.to, err = strconv.ParseInt(fmt.Sprint(f.text), 10, 64); err != nil {
			return e, err
		}
	}
	data, _ := m.Values["experience"].(string)
	e.experience, err = experience.Decode([]byte(data))
	return e, err
}

// listen waits for news and wakes who waits for something. A server that is away is waited for.
func (r *redisServer) listen(from string) {
	defer close(r.hearing)
	const round = 10 * time.Second // a server that has gone without a word is noticed
	for !r.isClosed() {
		news, err := r.client.XRead(context.Background(), &redis.XReadArgs{Streams: []string{r.keys[2], from}, Count: 100, Block: round}).Result()
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case err != nil:
			select {
			case <-time.After(max(r.rest, 100*time.Millisecond)):
			case <-r.ended:
			}
		default:
			last := news[0].Messages
			from = last[len(last)-1].ID
		}
		r.mu.Lock()
		r.signal()
		r.mu.Unlock()
	}
}

func (r *redisServer) changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gate.changed
}

func (r *redisServer) isClosed() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// hangUp ends the connections, once ended is closed.
func (r *redisServer) hangUp() error {
	err := r.client.Close()
	<-r.hearing
	return err
}
