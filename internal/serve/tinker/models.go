package tinker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// model is an adapter that a client trains. Its requests run one after another, by their numbers.
type model struct {
	id      string
	base    *Base
	recipe  recipe
	of      *session
	making  *future // the answer to who made it; nil once there is one
	journal *journal
	trainer engine.Trainer // nil while it is out of memory; the loop alone uses it, and the next two
	spoilt  string         // why the gradient is not what the client wanted; "" if it is
	pending bool           // there is a gradient that no step has used

	wake  chan struct{} // gets an element when a request has come
	mu    sync.Mutex
	next  int32
	held  map[int32]*job
	bytes int       // of the requests that are held
	idle  time.Time // since when nothing of it runs
	ended error     // why it takes no requests
}

// recipe is how an adapter was made. Checkpoints have it.
type recipe struct {
	BaseModel    string `json:"base_model"`
	Rank         int    `json:"lora_rank"`
	Alpha        int    `json:"lora_alpha"`
	TrainUnembed bool   `json:"train_unembed"`
	TrainMLP     bool   `json:"train_mlp"`
	TrainAttn    bool   `json:"train_attn"`
	Optimizer    string `json:"optimizer"`
}

// job is a numbered request of a model.
type job struct {
	call   *call
	f      *future
	name   string // of the call
	came   time.Time
	bytes  int
	record int64 // its number in the log
}

// attention and perceptron are the layers of train_attn and train_mlp.
var (
	attention  = engine.Names{"q_proj", "k_proj", "v_proj", "o_proj"}
	perceptron = engine.Names{"gate_proj", "up_proj", "down_proj"}
)

func (m *recipe) String() string {
	return fmt.Sprintf("%s, rank %d, alpha %d, train_mlp %t, train_attn %t", m.BaseModel, m.Rank, m.Alpha, m.TrainMLP, m.TrainAttn)
}

func (m *recipe) lora() *engine.LoRASpec {
	spec := &engine.LoRASpec{LoraRank: m.Rank, LoraAlpha: m.Alpha, BaseModelName: m.BaseModel, TargetModules: engine.Names{"all-linear"}}
	if !m.TrainMLP {
		spec.TargetModules = attention
	} else if !m.TrainAttn {
		spec.TargetModules = perceptron
	}
	return spec
}

// baseOf returns a base by its name.
func (s *catalog) baseOf(name string) (*Base, error) {
	if b := s.bases[name]; b != nil {
		return b, nil
	}
	return nil, bad("base_model %.200q is not served: this service has %s", name, strings.Join(slices.Sorted(maps.Keys(s.bases)), ", "))
}

func isTrue(v *bool) bool { return v == nil || *v }

func (s *Server) createModel(ctx context.Context, body []byte) (any, error) {
	var in tinker.CreateModel
	if err := read(body, &in); err != nil {
		return nil, err
	}
	b, err := s.all.baseOf(in.BaseModel)
	if err != nil {
		return nil, err
	}
	session, id, err := s.numbered(in.SessionID, "train", in.ModelSeqID, "model_seq_id")
	if err != nil {
		return nil, err
	}
	lora := in.LoRA
	if lora == nil || lora.Rank < 1 || lora.Rank > b.MaxRank {
		return nil, bad("lora_config.rank is missing, or none of 1 to %d: this service trains adapters, and no whole models", b.MaxRank)
	}
	if o := in.OptimizerConfig; o != nil && o.Type != "adamw" {
		return nil, bad("optimizer_config.type is %.40q: this service has adamw", o.Type)
	}
	m := recipe{
		BaseModel: in.BaseModel, Rank: lora.Rank, Alpha: s.opts.Alpha, TrainUnembed: isTrue(lora.TrainUnembed), TrainMLP: isTrue(lora.TrainMLP),
		TrainAttn: isTrue(lora.TrainAttn), Optimizer: "adamw",
	}
	if !m.TrainMLP && !m.TrainAttn {
		return nil, bad("lora_config: with train_mlp and train_attn false there is nothing to train")
	}
	return s.newModel(ctx, session, &model{id: id, base: b, recipe: m}, callCreate, body)
}

// seedOf returns the seed of a model that create_model makes.
func seedOf(body []byte) (uint64, error) {
	var in tinker.CreateModel
	if err := read(body, &in); err != nil || in.LoRA == nil || in.LoRA.Seed == nil {
		return 0, err
	}
	return uint64(*in.LoRA.Seed), nil
}

// newModel begins to open a model. Its result is what the client gets once it is open.
func (s *Server) newModel(ctx context.Context, of *session, m *model, call string, body []byte) (any, error) {
	m.wake, m.next, m.held, m.of = make(chan struct{}, 1), 1, map[int32]*job{}, of
	return s.submit(futureID(m.id, 0), body, tinker.Submitted{ModelID: m.id}, func(f *future) error {
		m.making = f
		if err := s.begin(m, call, body); err != nil {
			return full(err)
		}
		err := s.start(ctx, func(ctx context.Context) { s.hold(ctx, m) })
		if err != nil {
			s.remove(m, err)
		}
		return err
	})
}

// hold runs a model until its session ends, or the service does.
func (s *Server) hold(ctx context.Context, m *model) {
	ctx, cancel := m.of.during(ctx)
	defer cancel()
	err := s.make(ctx, m)
	if err == nil {
		err = m.loop(ctx, s)
	}
	switch {
	case m.of.hasEnded():
		err = errors.New("its session has ended")
	case ctx.Err() != nil:
		err = errStops
	}
	s.remove(m, err)
}

// errStops ends a model whose requests the next service answers.
var errStops = errors.New("the service stops")

// make opens a new model, and answers who made it.
func (s *Server) make(ctx context.Context, m *model) error {
	if m.making == nil {
		return nil
	}
	var reply any
	err := s.alone(ctx, func() (err error) {
		reply, err = m.first(ctx, s)
		return err
	})
	if ctx.Err() != nil && !m.of.hasEnded() {
		return err
	}
	result := outcome(reply, err)
	m.keep(s, m.making, 0, result)
	m.making.finish(result, nil)
	m.making = nil
	return err
}

// first opens a trainer for the first time. What was loaded is in a state then: the checkpoint may change.
func (m *model) first(ctx context.Context, s *Server) (any, error) {
	t, err := m.journal.read(true)
	if err != nil {
		return nil, &ownError{err}
	}
	if err := m.enter(ctx, s); err != nil {
		return nil, err
	}
	if t.made == nil || t.made.Call == callCreate {
		return map[string]string{"model_id": m.id, "type": callCreate}, nil
	}
	var in tinker.LoadWeights
	if err := read(t.made.payload, &in); err != nil {
		return nil, err
	}
	if err := m.cut(ctx, s); err != nil {
		return nil, &ownError{err}
	}
	return map[string]string{"path": in.Path, "model_id": m.id, "type": callLoad}, nil
}

// alone runs what trains, or takes memory for it, while nothing else does.
func (s *Server) alone(ctx context.Context, do func() error) error {
	select {
	case s.compute <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.compute }()
	return do()
}

// remove ends a model, whose requests fail, unless the next service answers them.
func (s *Server) remove(m *model, because error) {
	m.mu.Lock()
	m.ended = because
	for _, j := range m.held {
		s.waiting.Add(-int64(j.bytes))
		if !errors.Is(because, errStops) {
			j.f.finish(nil, fmt.Errorf("%s is gone: %w", m.id, because))
		}
	}
	clear(m.held)
	m.mu.Unlock()
	if err := errors.Join(m.close(), m.journal.log.Close()); err != nil {
		s.opts.Say(fmt.Sprintf("%s: %v", m.id, err))
	}
	s.mu.Lock()
	delete(s.models, m.id)
	m.of.models--
	s.mu.Unlock()
	if m.of.hasEnded() {
		s.forgetSessions(m.id)
		s.clear(m.of)
	}
}

// modelOf returns a model by its id.
func (s *Server) modelOf(id string) (*model, error) {
	s.touch(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[id]; m != nil {
		return m, nil
	}
	if because := s.lost[id]; because != nil {
		return nil, missing("%s cannot go on: %v; checkpoints are still there", id, because)
	}
	return nil, missing("there is no model %.200q: its session has ended; checkpoints are still there", id)
}

func (s *Server) getInfo(_ context.Context, body []byte) (any, error) {
	var in struct {
		ModelID string `json:"model_id"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	m, err := s.modelOf(in.ModelID)
	if err != nil {
		return nil, err
	}
	b := m.base
	return &tinker.Info{
		Type: "get_info", ModelID: m.id, ModelName: b.Name, IsLoRA: true, LoRARank: m.recipe.Rank,
		ModelData: tinker.ModelData{Arch: b.Arch, ModelName: b.Name, TokenizerID: b.Tokenizer},
	}, nil
}

// maxHeld bounds the requests of a model that wait, in bytes.
const maxHeld = 1 << 30

// maxWaiting bounds those of all models.
const maxWaiting = 4 << 30

// order takes a request of a model, which runs once those before it have run. It is in the log before it is acknowledged.
// A request whose run fails has used its number.
func (s *Server) order(name string, body []byte) (any, error) {
	c, err := s.calls.read(name, body)
	if err != nil {
		return nil, err
	}
	m, err := s.modelOf(c.model)
	if err != nil {
		return nil, err
	}
	if c.seq < 1 || c.seq == math.MaxInt32 {
		return nil, bad("seq_id is %d: want 1 or more, of 31 bits", c.seq)
	}
	return s.submit(futureID(m.id, c.seq), body, tinker.Submitted{ModelID: m.id}, func(f *future) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case errors.Is(m.ended, errStops):
			return &problem{http.StatusServiceUnavailable, m.ended.Error()}
		case m.ended != nil:
			return missing("%s is gone: %v", m.id, m.ended)
		case c.seq < m.next:
			return conflict("seq_id %d of %s came too late, or its result is gone: the next is %d", c.seq, m.id, m.next)
		case c.seq > m.next && m.bytes+len(body) > maxHeld: // the next one makes room
			return &problem{http.StatusTooManyRequests, fmt.Sprintf("requests of %d MiB of %s wait already", m.bytes>>20, m.id)}
		case c.seq > m.next && s.waiting.Load()+int64(len(body)) > maxWaiting:
			return &problem{http.StatusTooManyRequests, fmt.Sprintf("requests of %d MiB wait already", s.waiting.Load()>>20)}
		}
		c.slice = m.base.MicroTokens
		number, err := m.journal.append(&record{Kind: requested, Seq: c.seq, Call: name, Slice: c.slice, payload: body})
		if err != nil {
			return full(err)
		}
		m.take(s, &job{c, f, name, time.Now(), len(body), number})
		return nil
	})
}

// take holds a request until it runs. The mutex is held.
func (m *model) take(s *Server, j *job) {
	j.f.waits = func() string { return m.waitsFor(j.call.seq) }
	m.bytes += j.bytes
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
				if err := s.alone(ctx, func() error { return m.leave(ctx, s) }); err != nil && ctx.Err() == nil {
					s.opts.Say(fmt.Sprintf("%s stays in memory: %v", m.id, err))
					m.idle = time.Now()
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		if err := s.alone(ctx, func() error { return m.run(ctx, s, j) }); err != nil {
			if m.of.hasEnded() || ctx.Err() == nil {
				j.f.finish(nil, fmt.Errorf("%s is gone: %w", m.id, err))
			}
			return err
		}
	}
}

// run runs a request, and gives the client its result. It is an error if the model cannot come into memory, or ctx ends.
func (m *model) run(ctx context.Context, s *Server, j *job) error {
	if err := m.enter(ctx, s); err != nil {
		if ctx.Err() == nil {
			s.lose(m.of, m.id, err)
		}
		return err
	}
	result, err := j.call.run(ctx, m)
	if ctx.Err() != nil {
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

// unused returns when the model is to leave memory; nil if it stays there: it is out, or has a gradient.
func (m *model) unused(s *Server) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trainer == nil || !m.isWhole() {
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
		m.bytes -= j.bytes
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
	lost := m.next
	_, err := m.journal.later(&record{Kind: gapped, Seq: lost})
	for _, seq := range slices.Sorted(maps.Keys(m.held)) {
		j := m.held[seq]
		result := outcome(nil, fmt.Errorf(
			"seq_id %d of %s has not come within %v, and %d waits for it: the client that numbers them has ended or lost it",
			lost, m.id, s.opts.Gap, seq))
		err = errors.Join(err, m.journal.result(j.f, seq, result, true))
		j.f.finish(result, nil)
		s.waiting.Add(-int64(j.bytes))
		m.next = seq + 1
	}
	clear(m.held)
	m.bytes = 0
	m.spoilt = notCome(lost)
	if err != nil {
		s.opts.Say(fmt.Sprintf("%s: results wait for the disk: %v", m.id, err))
	}
}

// isServers reports whether an error is no fault of the client.
func isServers(err error) bool {
	return errors.As(err, new(*trinity.EngineError)) || errors.As(err, new(*ownError))
}

// ownError is a fault of the service, such as a full disk.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }
