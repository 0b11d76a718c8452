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
	trainer engine.Trainer // nil until it is open; the loop alone uses it, and the next two
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
	f     *future
	came  time.Time
	bytes int
	run   func(ctx context.Context) (any, error)
}

// attention and perceptron are the layers of train_attn and train_mlp, and unembed is what train_unembed adds.
var (
	attention  = engine.Names{"q_proj", "k_proj", "v_proj", "o_proj"}
	perceptron = engine.Names{"gate_proj", "up_proj", "down_proj"}
	unembed    = engine.Names{"lm_head"}
)

func (m *recipe) String() string {
	return fmt.Sprintf("%s, rank %d, alpha %d, train_mlp %t, train_attn %t, train_unembed %t",
		m.BaseModel, m.Rank, m.Alpha, m.TrainMLP, m.TrainAttn, m.TrainUnembed)
}

func (m *recipe) lora() *engine.LoRASpec {
	spec := &engine.LoRASpec{LoraRank: m.Rank, LoraAlpha: m.Alpha, BaseModelName: m.BaseModel}
	switch {
	case m.TrainMLP && m.TrainAttn:
		spec.TargetModules = engine.Names{"all-linear"}
	case m.TrainMLP:
		spec.TargetModules = perceptron
	case m.TrainAttn:
		spec.TargetModules = attention
	}
	if m.TrainUnembed {
		spec.TargetModules = slices.Concat(spec.TargetModules, unembed)
	}
	return spec
}

// baseOf returns a base by its name.
func (s *Server) baseOf(name string) (*Base, error) {
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
	b, err := s.baseOf(in.BaseModel)
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
	if !m.TrainMLP && !m.TrainAttn && !m.TrainUnembed {
		return nil, bad("lora_config: with train_mlp, train_attn and train_unembed false there is nothing to train")
	}
	seed := uint64(0)
	if lora.Seed != nil {
		seed = uint64(*lora.Seed)
	}
	return s.newModel(ctx, session, &model{id: id, base: b, recipe: m}, body, func(ctx context.Context) (engine.Trainer, error) {
		return b.Open(ctx, m.lora(), seed)
	}, map[string]string{"model_id": id, "type": "create_model"})
}

// newModel begins to open a model. Its result is what the client gets once it is open.
func (s *Server) newModel(
	ctx context.Context, of *session, m *model, body []byte, open func(context.Context) (engine.Trainer, error), result any,
) (any, error) {
	m.wake, m.next, m.held = make(chan struct{}, 1), 1, map[int32]*job{}
	return s.submit(m.id+":0", body, tinker.Submitted{ModelID: m.id}, func(f *future) error {
		err := s.start(ctx, func(ctx context.Context) {
			ctx, cancel := of.during(ctx)
			defer cancel()
			err := s.alone(ctx, func() (err error) {
				m.trainer, err = open(ctx)
				return err
			})
			f.finish(result, err)
			if err == nil {
				m.loop(ctx, s)
				err = errors.New("its session has ended")
			}
			s.remove(m, err)
		})
		if err == nil {
			s.models[m.id] = m
		}
		return err
	})
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

// remove ends a model, whose requests fail.
func (s *Server) remove(m *model, because error) {
	s.mu.Lock()
	delete(s.models, m.id)
	s.mu.Unlock()
	m.mu.Lock()
	m.ended = because
	for _, j := range m.held {
		j.f.finish(nil, fmt.Errorf("%s is gone: %w", m.id, because))
	}
	clear(m.held)
	m.mu.Unlock()
	if m.trainer != nil {
		if err := m.trainer.Close(); err != nil {
			s.opts.Say(fmt.Sprintf("%s: %v", m.id, err))
		}
	}
	s.forgetSessions(m.id)
}

// modelOf returns a model by its id.
func (s *Server) modelOf(id string) (*model, error) {
	s.touch(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[id]; m != nil {
		return m, nil
	}
	return nil, missing("there is no model %.200q: its session has ended, or the service has begun anew; checkpoints are still there", id)
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

// order takes a request of a model, which runs once those before it have run. A request whose run fails has used its number.
func (s *Server) order(modelID string, seq int32, body []byte, run func(ctx context.Context, m *model) (any, error)) (any, error) {
	m, err := s.modelOf(modelID)
	if err != nil {
		return nil, err
	}
	if seq < 1 || seq == math.MaxInt32 {
		return nil, bad("seq_id is %d: want 1 or more, of 31 bits", seq)
	}
	return s.submit(fmt.Sprintf("%s:%d", m.id, seq), body, tinker.Submitted{ModelID: m.id}, func(f *future) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.ended != nil:
			return missing("%s is gone: %v", m.id, m.ended)
		case seq < m.next:
			return conflict("seq_id %d of %s came too late, or its result is gone: the next is %d", seq, m.id, m.next)
		case m.bytes+len(body) > maxHeld:
			return &problem{http.StatusTooManyRequests, fmt.Sprintf("requests of %d MiB of %s wait already", m.bytes>>20, m.id)}
		}
		f.waits = func() string { return m.waitsFor(seq) }
		m.bytes += len(body)
		m.held[seq] = &job{f, time.Now(), len(body), func(ctx context.Context) (any, error) { return run(ctx, m) }}
		select {
		case m.wake <- struct{}{}:
		default:
		}
		return nil
	})
}

// ordered is order for a call in JSON. One that cannot be read has used its number, too.
func (s *Server) ordered(body []byte, in any, run func(ctx context.Context, m *model) (any, error)) (any, error) {
	var at struct {
		ModelID string `json:"model_id"`
		SeqID   int32  `json:"seq_id"`
	}
	if err := read(body, &at); err != nil {
		return nil, err
	}
	err := read(body, in)
	return s.order(at.ModelID, at.SeqID, body, func(ctx context.Context, m *model) (any, error) {
		if err != nil {
			return nil, err
		}
		return run(ctx, m)
	})
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

// loop runs the requests of a model in their order until ctx ends.
func (m *model) loop(ctx context.Context, s *Server) {
	for {
		j, gap := m.take(s.opts.Gap)
		if j == nil {
			select {
			case <-m.wake:
			case <-gap: // nil waits for ever
				m.giveUp(s.opts.Gap)
			case <-ctx.Done():
				return
			}
			continue
		}
		var result any
		err := s.alone(ctx, func() (err error) {
			result, err = j.run(ctx)
			return err
		})
		j.f.finish(result, err)
		m.mu.Lock()
		m.idle = time.Now()
		m.mu.Unlock()
	}
}

// take returns the next request; nil if it has not come, and then when to stop waiting for it.
func (m *model) take(patience time.Duration) (*job, <-chan time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.held[m.next]; j != nil {
		delete(m.held, m.next)
		m.bytes -= j.bytes
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
	return nil, time.After(time.Until(first.Add(patience)))
}

// giveUp fails the requests that wait for one that does not come.
func (m *model) giveUp(patience time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[m.next] != nil {
		return // it has come just now
	}
	lost := m.next
	for _, seq := range slices.Sorted(maps.Keys(m.held)) {
		m.held[seq].f.finish(nil, fmt.Errorf(
			"seq_id %d of %s has not come within %v, and %d waits for it: the client that numbers them has ended or lost it",
			lost, m.id, patience, seq))
		m.next = seq + 1
	}
	clear(m.held)
	m.bytes = 0
	m.spoilt = fmt.Sprintf("seq_id %d has not come", lost)
}

// isServers reports whether an error is no fault of the client.
func isServers(err error) bool {
	return errors.As(err, new(*trinity.EngineError)) || errors.As(err, new(*ownError))
}

// ownError is a fault of the service, such as a full disk.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }
