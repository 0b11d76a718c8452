package tinker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// model is an adapter that a client trains. Its requests run one after another, by their numbers.
type model struct {
	id      string
	session *session
	made    time.Time
	base    *Base
	recipe  recipe
	about   map[string]string // metadata of the client
	making  *future           // the answer to who made it; nil once there is one
	journal *journal
	trainer engine.Trainer // nil while it is out of memory; the loop alone uses it, and the next three
	spoilt  string         // why the gradient is not what the client wanted; "" if it is
	pending bool           // there is a gradient that no step has used
	stays   bool           // it could not leave memory, and waits for its next request
	turn    *turn          // at computing; nil while others have theirs

	inMemory atomic.Bool   // there is a trainer
	out      chan struct{} // gets an element when another model wants its memory

	wake  chan struct{} // gets an element when a request has come
	mu    sync.Mutex
	next  int32
	held  map[int32]*job
	bytes atomic.Int64 // of the requests that are held; read without the mutex, which is held during writes to the disk
	idle  time.Time    // since when nothing of it runs
	ended error        // why it takes no requests
}

// String says which model it is.
func (m *model) String() string { return m.id }

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

func (m *recipe) String() string {
	return fmt.Sprintf("%s, rank %d, alpha %d, train_mlp %t, train_attn %t, train_unembed %t",
		m.BaseModel, m.Rank, m.Alpha, m.TrainMLP, m.TrainAttn, m.TrainUnembed)
}

func (m *recipe) lora() *engine.LoRASpec {
	return &engine.LoRASpec{
		LoraRank: m.Rank, LoraAlpha: m.Alpha, BaseModelName: m.BaseModel, TargetModules: tinker.Modules(m.TrainMLP, m.TrainAttn, m.TrainUnembed),
	}
}

// baseOf returns a base by its name.
func (s *catalog) baseOf(name string) (*Base, error) {
	if b := s.bases[name]; b != nil {
		return b, nil
	}
	return nil, bad("base_model %.200q is not served: this service has %s", name, strings.Join(slices.Sorted(maps.Keys(s.bases)), ", "))
}

// of returns the base of this name, whose weights must be those of which somebody has a fingerprint. what is trained on them.
func (s *catalog) of(what fmt.Stringer, name, weights string) (*Base, error) {
	b, err := s.baseOf(name)
	if err == nil && weights != "" && b.Weights != "" && b.Weights != weights {
		return nil, bad("%s is of another %s than the one that is served: its files are not the same; serve the model of then by this "+
			"name (--model), and the one of now by another", what, name)
	}
	return b, err
}

// base returns the base of a checkpoint.
func (s *catalog) base(c *checkpoint) (*Base, error) { return s.of(c.path, c.BaseModel, c.Weights) }

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
	session, id, err := s.numbered(Owner(ctx), in.SessionID, "train", in.ModelSeqID, "model_seq_id")
	if err != nil {
		return nil, err
	}
	lora := in.LoRA
	if lora == nil {
		return nil, bad("lora_config is missing: this service trains adapters, and no whole models")
	}
	if lora.Rank < 1 || lora.Rank > b.MaxRank {
		return nil, bad("lora_config.rank is %d: want 1 to %d", lora.Rank, b.MaxRank)
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
	about, err := texts(in.UserMetadata)
	if err != nil {
		return nil, err
	}
	return s.newModel(ctx, session, &model{id: id, base: b, recipe: m, about: about}, callCreate, body)
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
	m.session, m.made = of, time.Now()
	m.wake, m.out, m.next, m.held = make(chan struct{}, 1), make(chan struct{}, 1), 1, map[int32]*job{}
	return s.submit(of.owner, futureID(m.id, 0), body, tinker.Submitted{ModelID: m.id}, func(f *future) error {
		m.making = f
		if err := s.begin(m, call, body); err != nil {
			return err
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
	ctx, cancel := m.session.during(ctx)
	defer cancel()
	err := s.make(ctx, m)
	if err == nil {
		err = m.loop(ctx, s)
	}
	switch {
	case m.session.hasEnded():
		err = errors.New("its session has ended")
	case ctx.Err() != nil:
		err = errStops
	}
	s.remove(m, err)
}

// errStops ends a model whose requests the next service answers.
var errStops = errors.New("the service stops")

// newRoom is how long a new model waits for others to leave memory.
const newRoom = 2 * time.Second

// make opens a new model, and answers who made it.
func (s *Server) make(ctx context.Context, m *model) error {
	if m.making == nil {
		return nil
	}
	var reply any
	err := m.inRoom(ctx, s, newRoom, func() (err error) {
		reply, err = m.first(ctx, s)
		return err
	})
	if ctx.Err() != nil && !m.session.hasEnded() {
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

// leastCharge is what a turn costs that computes no slice, such as a step or a checkpoint, in tokens.
const leastCharge = 64

// alone runs what trains a model, or takes memory for it, while nothing else does. The loop of the model alone calls it.
func (s *Server) alone(ctx context.Context, m *model, do func() error) (err error) {
	if m.turn == nil {
		m.turn, err = s.train.enter(ctx, m.session.owner, m.id, 1)
	} else {
		err = m.turn.yield(ctx)
	}
	if err != nil {
		m.turn = nil
		return err
	}
	before := m.turn.spent
	if err = do(); m.turn.spent == before {
		m.turn.charge(leastCharge)
	}
	// Or else it waits for its next turn from now on. Whoever waits for memory lets others compute.
	if ctx.Err() != nil || !m.isReady() || errors.As(err, new(*noRoom)) {
		m.turn.leave()
		m.turn = nil
	}
	return err
}

// isReady reports whether the next request has come.
func (m *model) isReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[m.next] != nil
}

// failHeld ends the requests that a model holds: they fail, unless the next service answers them.
func (m *model) failHeld(s *Server, because error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = because
	for _, j := range m.held {
		s.waiting.Add(-int64(j.bytes))
		if !errors.Is(because, errStops) {
			j.f.finish(nil, fmt.Errorf("%s is gone: %w", m.id, because))
		}
	}
	clear(m.held)
}

// remove ends a model.
func (s *Server) remove(m *model, because error) {
	m.failHeld(s, because)
	if m.turn != nil {
		m.turn.leave()
	}
	if err := errors.Join(m.close(), m.journal.log.Close()); err != nil {
		s.opts.Say(fmt.Sprintf("%s: %v", m.id, err))
	}
	s.mu.Lock()
	delete(s.models, m.id)
	m.session.models--
	s.mu.Unlock()
	s.all.store.disk.end(m.journal)
	if m.session.hasEnded() {
		s.all.store.forgetSessions(m.id, s.opts.Say)
		s.clear(m.session)
	}
}

// modelOf returns a model of an owner by its id.
func (s *Server) modelOf(owner, id string) (*model, error) {
	s.touch(owner, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[id]; m != nil && m.session.owner == owner {
		return m, nil
	}
	x := s.sessions[sessionOf(id)]
	if because := s.lost[id]; because != nil && x != nil && x.owner == owner {
		return nil, missing("%s cannot go on: %v; checkpoints are still there", id, because)
	}
	return nil, missing("there is no model %.200q: its session has ended, or another key made it; its checkpoints stay", id)
}

func (s *Server) getInfo(ctx context.Context, body []byte) (any, error) {
	var in struct {
		ModelID string `json:"model_id"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	m, err := s.modelOf(Owner(ctx), in.ModelID)
	if err != nil {
		return nil, err
	}
	b := m.base
	return &tinker.Info{
		Type: "get_info", ModelID: m.id, ModelName: b.Name, IsLoRA: true, LoRARank: m.recipe.Rank,
		ModelData: tinker.ModelData{Arch: b.Arch, ModelName: b.Name, TokenizerID: b.Tokenizer},
	}, nil
}

// isServers reports whether an error is no fault of the client.
func isServers(err error) bool {
	return errors.As(err, new(*trinity.EngineError)) || errors.As(err, new(*ownError))
}

// ownError is a fault of the service, such as a full disk.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }
