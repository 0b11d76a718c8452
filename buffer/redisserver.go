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
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/experience"
	"github.com/trinity-go/trinity/failpoint"
	"github.com/trinity-go/trinity/outage"
)

var (
	failScript   = failpoint.New("redis.script")   // before the server is asked to execute one
	failExecuted = failpoint.New("redis.executed") // when it has, and nobody knows
)

// redisServer is one buffer of a Redis server.
type redisServer struct {
	client *redis.Client
	keys   []string // hash, experiences, news
	where  string   // for people, without password
	policy outage.Policy
	server outage.Server

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
	options.MaxRetries, options.DialerRetries = -1, 1 // package outage does that
	options.ReadTimeout, options.WriteTimeout = redisPatience, redisPatience
	key := "trinity:{" + s.Name + "}"
	r := &redisServer{
		client: redis.NewClient(options), keys: []string{key, key + ":experiences", key + ":news"},
		where: fmt.Sprintf("redis://%s/%d, buffer %s", options.Addr, options.DB, s.Name), ended: ended, hearing: make(chan struct{}),
	}
	r.policy = outage.Policy{Name: r.where, Retries: s.Retries, Interval: s.RetryInterval, Passes: passes, Text: error.Error, Quit: ended, Stop: s.Stop, Say: s.Say}
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
	return asked(ctx, r, r.policy, func(ctx context.Context) (string, error) {
		info, err := r.client.Info(ctx, "persistence", "memory").Result()
		if err != nil {
			return "", err
		}
		if err := keeps(info); err != nil {
			return "", err
		}
		if _, err := r.once(ctx, redisMake); err != nil {
			return "", err
		}
		last, err := r.client.XRevRangeN(ctx, r.keys[2], "+", "-", 1).Result()
		if err != nil || len(last) == 0 {
			return "0-0", err
		}
		return last[0].ID, nil
	})
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

// asked has a question asked as a policy says, and as long as ctx lets it. Its error says where that was.
func asked[T any](ctx context.Context, r *redisServer, p outage.Policy, ask func(context.Context) (T, error)) (answer T, err error) {
	err = r.server.Ask(ctx, p, func(ctx context.Context) (err error) {
		answer, err = within(ctx, ask)
		return err
	})
	var told *outage.Error
	switch {
	case err == nil, errors.As(err, &told):
		return answer, err
	case strings.HasPrefix(err.Error(), "NOAUTH"), strings.HasPrefix(err.Error(), "WRONGPASS"):
		return answer, fmt.Errorf("%s: %w; %s", r, err, database.Denied)
	}
	return answer, fmt.Errorf("%s: %w", r, err)
}

// within asks until ctx ends, which the client does not look at while it waits for an answer: that is left to itself.
func within[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	type result struct {
		answer T
		err    error
	}
	results := make(chan result, 1)
	go func() {
		answer, err := ask(ctx)
		results <- result{answer, err}
	}()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// passes reports whether an error may be over soon: no connection, or a server that has just been started.
func passes(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errRedisLoading) ||
		strings.HasPrefix(err.Error(), "LOADING") || strings.HasPrefix(err.Error(), "MASTERDOWN")
}

var errRedisLoading = errors.New("the server is reading its file")

var errGone = errors.New("the buffer is not there any more: the server has lost it, or somebody has removed it")

// run executes a script, again where its answer was lost: each does nothing the second time.
func (r *redisServer) run(ctx context.Context, script *redis.Script, values ...any) (answer any, err error) {
	return asked(ctx, r, r.policy, func(ctx context.Context) (any, error) {
		answer, err := r.once(ctx, script, values...)
		if err == nil && answer == "gone" {
			err = errGone
		}
		return answer, err
	})
}

// once executes a script.
func (r *redisServer) once(ctx context.Context, script *redis.Script, values ...any) (answer any, err error) {
	if err := failScript.Hit(""); err != nil {
		return nil, err
	}
	if answer, err = script.Run(ctx, r.client, r.keys, values...).Result(); err != nil {
		return nil, err
	}
	return answer, failExecuted.Hit("")
}

func (r *redisServer) entries(ctx context.Context, after int64, limit int) (entries []sharedEntry, err error) {
	messages, err := asked(ctx, r, r.policy, func(ctx context.Context) ([]redis.XMessage, error) {
		return r.client.XRangeN(ctx, r.keys[1], fmt.Sprintf("%d-0", after+1), "+", int64(limit)).Result()
	})
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		e, err := readEntry(m)
		if err != nil {
			return nil, fmt.Errorf("%s, experience %s: %w", r, m.ID, err)
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
	hearing, end := context.WithCancel(context.Background())
	defer end()
	go func() { <-r.ended; end() }()
	const round = 10 * time.Second // a server that has gone without a word is noticed
	for !r.isClosed() {
		news, err := within(hearing, func(ctx context.Context) ([]redis.XStream, error) {
			return r.client.XRead(ctx, &redis.XReadArgs{Streams: []string{r.keys[2], from}, Count: 100, Block: round}).Result()
		})
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case err != nil:
			select {
			case <-time.After(max(r.policy.Interval, 100*time.Millisecond)):
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
	return r.gate.point.Next()
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
