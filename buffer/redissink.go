package buffer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/experience"
)

// Sink implements trinity.Buffer. Its Put may exceed the capacity by a delivery, so that none waits half done; one without groups needs no room and
// does not wait.
func (b *Redis) Sink(explorer string) trinity.Sink {
	return &redisSink{buffer: b, server: b.redis, name: explorer}
}

// redisSink is an explorer's side.
type redisSink struct {
	buffer *Redis
	server *redisServer
	name   string

	mu       sync.Mutex
	session  string // what the explorer is known by on the server; "" before it has said that it is it
	delivery int64  // number of the last one
	unsure   bool   // whether a later one is there
}

// Resume implements trinity.Sink: this process becomes the explorer.
func (s *redisSink) Resume(ctx context.Context) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cursor, err := s.resume(ctx)
	if err != nil {
		return nil, sharedFailed(s.over(err))
	}
	return cursor, nil
}

func (s *redisSink) resume(ctx context.Context) (json.RawMessage, error) {
	session := rand.Text()
	answer, err := s.server.run(ctx, redisResume, s.name, session)
	if err != nil {
		return nil, err
	}
	last, ok := answer.([]any)
	if !ok || len(last) != 2 {
		return nil, fmt.Errorf("%s answers %v to who goes on as explorer %s", s.server, answer, s.name)
	}
	if err := s.known(last[0]); err != nil {
		return nil, err
	}
	s.session = session
	cursor, _ := last[1].(string) // nil where there is none
	if cursor == "" {
		return nil, nil
	}
	return json.RawMessage(cursor), nil
}

// known takes note of the number of the last delivery.
func (s *redisSink) known(delivery any) (err error) {
	if s.delivery, err = strconv.ParseInt(fmt.Sprint(delivery), 10, 64); err != nil {
		return fmt.Errorf("%s: the last delivery of explorer %s: %w", s.server, s.name, err)
	}
	s.unsure = false
	return nil
}

// begin is resume for who has not called Resume. Who does not know whether its last delivery is there finds that out.
func (s *redisSink) begin(ctx context.Context) error {
	if s.session == "" {
		_, err := s.resume(ctx)
		return err
	}
	if !s.unsure {
		return nil
	}
	answer, err := s.server.run(ctx, redisLast, s.name, s.session, s.delivery)
	if err == nil {
		err = s.refused(answer)
	}
	if err != nil {
		return err
	}
	return s.known(answer)
}

// Put implements trinity.Sink.
func (s *redisSink) Put(ctx context.Context, d trinity.Delivery) error {
	exps := slices.Concat(d.Groups...)
	fields, n, err := redisFields(exps)
	if err != nil {
		return sharedFailed(err)
	}
	ctx, cancel := withTimeout(ctx, s.buffer.putTimeout, "synchronizer.sync_timeout")
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(ctx); err != nil {
		return sharedFailed(s.over(err))
	}
	values := append([]any{s.name, s.session, s.delivery, s.buffer.capacity, d.Needs, string(d.Cursor), n, len(exps)}, fields...)
	var answer any
	err = s.buffer.await(ctx, "the trainer to make room in the experience buffer", func() (bool, error) {
		if s.server.isClosed() {
			answer = "ended"
			return true, nil
		}
		var err error
		answer, err = s.server.run(ctx, redisPut, values...)
		return err == nil && answer != "full", err
	})
	if err != nil {
		s.unsure = true
		return sharedFailed(s.over(err))
	}
	if err := s.refused(answer); err != nil {
		return sharedFailed(err)
	}
	s.delivery++
	return nil
}

// over is ErrEnded in place of what goes wrong in a buffer that is closed.
func (s *redisSink) over(err error) error {
	if s.server.isClosed() {
		return trinity.ErrEnded
	}
	return err
}

// refused is why a script did nothing.
func (s *redisSink) refused(answer any) error {
	switch answer {
	case "ended":
		return trinity.ErrEnded
	case "lost":
		return lostDelivery(s.server, s.name, s.delivery)
	case "other":
		return fmt.Errorf("another process has become explorer %s: give each a name of its own (explorer.name)", s.name)
	}
	return nil
}

// redisFields are the experiences as redisPut wants them, and how many rollouts they are.
func redisFields(exps []*trinity.Experience) (fields []any, rollouts int, err error) {
	for i, e := range exps {
		if i == 0 || begins(exps[i-1].ID, e.ID) {
			rollouts++
		}
		data, err := experience.Append(nil, e)
		if err != nil {
			return nil, 0, err
		}
		reward := ""
		if e.Reward.Valid {
			reward = strconv.FormatFloat(e.Reward.Value, 'g', -1, 64)
		}
		fields = append(fields, rollouts, e.ID.Step, e.ID.Task, e.ID.Run, e.ID.Turn, e.Versions[1], reward, e.Prompt, e.Response, data)
	}
	return fields, rollouts, nil
}

// Pause implements trinity.Sink.
func (s *redisSink) Pause(ctx context.Context, until int64) error { return s.set(ctx, "paused", until) }

// Close implements trinity.Sink.
func (s *redisSink) Close() error { return s.set(context.Background(), "closed", 1) }

// set says something of the explorer; once the buffer is closed nobody reads it.
func (s *redisSink) set(ctx context.Context, what string, value int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server.isClosed() {
		return nil
	}
	err := s.begin(ctx)
	if err == nil {
		var answer any
		if answer, err = s.server.run(ctx, redisSet, s.name, s.session, s.delivery, what, value); err == nil {
			err = s.refused(answer)
		}
	}
	if err != nil && !s.server.isClosed() {
		return sharedFailed(err)
	}
	return nil
}
