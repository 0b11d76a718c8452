package tinker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
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
	made    made
	trainer engine.Trainer // nil until it is open; the loop alone uses it
	spoilt  string         // why the gradient is not what the client wanted; "" if it is

	wake chan struct{} // gets an element when a request has come
	mu   sync.Mutex
	next int32
	held map[int32]*job
}

// made is how an adapter was made. Checkpoints have it.
type made struct {
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
	f    *future
	came time.Time
	run  func(ctx context.Context) (any, error)
}

func (s *Server) createSession(_ context.Context, body []byte) (any, error) {
	var in tinker.CreateSession
	if err := read(body, &in); err != nil {
		return nil, err
	}
	id := strings.ToLower(rand.Text())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = true
	return &tinker.Session{Type: "create_session", SessionID: id}, nil
}

// attention and perceptron are the layers of train_attn and train_mlp.
var (
	attention  = engine.Names{"q_proj", "k_proj", "v_proj", "o_proj"}
	perceptron = engine.Names{"gate_proj", "up_proj", "down_proj"}
)

func (m *made) lora() *engine.LoRASpec {
	spec := &engine.LoRASpec{LoraRank: m.Rank, LoraAlpha: m.Alpha, BaseModelName: m.BaseModel, TargetModules: engine.Names{"all-linear"}}
	if !m.TrainMLP {
		spec.TargetModules = attention
	} else if !m.TrainAttn {
		spec.TargetModules = perceptron
	}
	return spec
}

// numbered returns the id of what a session numbers, SESSION:KIND:NUMBER.
func (s *Server) numbered(session, kind string, number *int, field string) (string, error) {
	if number == nil || *number < 0 {
		return "", bad("%s is missing, or below 0", field)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sessions[session] {
		return "", missing("there is no session %.100q: the service may have begun anew, so create one", session)
	}
	return fmt.Sprintf("%s:%s:%d", session, kind, *number), nil
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
	id, err := s.numbered(in.SessionID, "train", in.ModelSeqID, "model_seq_id")
	if err != nil {
		return nil, err
	}
	lora := in.LoRA
	if lora == nil || lora.Rank < 1 {
		return nil, bad("lora_config.rank is missing, or below 1: this service trains adapters, and no whole models")
	}
	if o := in.OptimizerConfig; o != nil && o.Type != "adamw" {
		return nil, bad("optimizer_config.type is %.40q: this service has adamw", o.Type)
	}
	m := made{
		BaseModel: in.BaseModel, Rank: lora.Rank, Alpha: s.opts.Alpha, TrainUnembed: isTrue(lora.TrainUnembed), TrainMLP: isTrue(lora.TrainMLP),
		TrainAttn: isTrue(lora.TrainAttn), Optimizer: "adamw",
	}
	if !m.TrainMLP && !m.TrainAttn {
		return nil, bad("lora_config: with train_mlp and train_attn false there is nothing to train")
	}
	seed := uint64(0)
	if lora.Seed != nil {
		seed = uint64(*lora.Seed)
	}
	return s.newModel(ctx, id, body, b, m, func(ctx context.Context) (engine.Trainer, error) {
		return b.Open(ctx, m.lora(), seed)
	}, map[string]string{"model_id": id, "type": "create_model"})
}

// newModel begins to open a model. Its result is what the client gets once it is open.
func (s *Server) newModel(
	ctx context.Context, id string, body []byte, b *Base, how made, open func(context.Context) (engine.Trainer, error), result any,
) (any, error) {
	m := &model{id: id, base: b, made: how, wake: make(chan struct{}, 1), next: 1, held: map[int32]*job{}}
	return s.submit(id+":0", body, tinker.Submitted{ModelID: id}, func(f *future) error {
		err := s.start(ctx, func(ctx context.Context) {
			s.compute <- struct{}{}
			trainer, err := open(ctx)
			<-s.compute
			m.trainer = trainer
			f.finish(result, err)
			if err != nil {
				s.mu.Lock()
				delete(s.models, id)
				s.mu.Unlock()
				return
			}
			m.loop(ctx, s)
		})
		if err == nil {
			s.models[id] = m
			if how.TrainUnembed {
				s.opts.Say(id + " trains its layers alone: train_unembed has no effect in this version")
			}
		}
		return err
	})
}

// modelOf returns a model by its id.
func (s *Server) modelOf(id string) (*model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[id]; m != nil {
		return m, nil
	}
	return nil, missing("there is no model %.200q", id)
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
		Type: "get_info", ModelID: m.id, ModelName: b.Name, IsLoRA: true, LoRARank: m.made.Rank,
		ModelData: tinker.ModelData{Arch: b.Arch, ModelName: b.Name, TokenizerID: b.Tokenizer},
	}, nil
}

// order takes a request of a model, which runs once those before it have run. A request whose run fails has used its number.
func (s *Server) order(modelID string, seq int32, body []byte, run func(ctx context.Context, m *model) (any, error)) (any, error) {
	m, err := s.modelOf(modelID)
	if err != nil {
		return nil, err
	}
	if seq < 1 {
		return nil, bad("seq_id is %d: want 1 or more", seq)
	}
	return s.submit(fmt.Sprintf("%s:%d", m.id, seq), body, tinker.Submitted{ModelID: m.id}, func(f *future) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if seq < m.next {
			return conflict("seq_id %d of %s was used before, and its result is gone: the next is %d", seq, m.id, m.next)
		}
		f.waits = func() string { return m.waitsFor(seq) }
		m.held[seq] = &job{f: f, came: time.Now(), run: func(ctx context.Context) (any, error) { return run(ctx, m) }}
		select {
		case m.wake <- struct{}{}:
		default:
		}
		return nil
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
		select {
		case s.compute <- struct{}{}:
		case <-ctx.Done():
			return
		}
		result, err := j.run(ctx)
		<-s.compute
		if ctx.Err() != nil {
			return // the client asks again
		}
		j.f.finish(result, err)
	}
}

// take returns the next request; nil if it has not come, and then when to stop waiting for it.
func (m *model) take(patience time.Duration) (*job, <-chan time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.held[m.next]; j != nil {
		delete(m.held, m.next)
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
	return nil, time.After(time.Until(first.Add(patience)))
}

// giveUp fails the requests that wait for one that does not come.
func (m *model) giveUp(patience time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := m.next
	for _, seq := range slices.Sorted(maps.Keys(m.held)) {
		m.held[seq].f.finish(nil, fmt.Errorf(
			"seq_id %d of %s has not come within %v, and %d waits for it: the client that numbers them has ended or lost it",
			lost, m.id, patience, seq))
		m.next = seq + 1
	}
	clear(m.held)
	m.spoilt = fmt.Sprintf("seq_id %d has not come", lost)
}

// isServers reports whether an error is no fault of the client.
func isServers(err error) bool {
	return errors.As(err, new(*trinity.EngineError)) || errors.As(err, new(*ownError))
}

// ownError is a fault of the service, such as a full disk.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }
