package tinker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/tinker"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Trainers.Register("tinker",
		"A service that speaks the Tinker API and trains an adapter: trinity service, or a hosted one. model.tinker says which; "+
			"the variable TINKER_API_KEY has the key.",
		func() engine.TrainerOpener { return &trainerPlugin{usual} })
	registry.Samplers.Register("tinker", "The sampler of a service that speaks the Tinker API, for the adapter that it trains.",
		func() engine.SamplerOpener { return &samplerPlugin{usual} })
}

// arguments are what both plug-ins take.
type arguments struct {
	Timeout  float64 `yaml:"timeout" range:"(0,inf]" doc:"seconds until the service must have computed a request"`
	Patience float64 `yaml:"patience" range:"(0,inf]" doc:"seconds without an answer after which the service is lost"`
}

var usual = arguments{Timeout: 3600, Patience: 300}

type (
	trainerPlugin struct {
		arguments `yaml:",inline"`
	}
	samplerPlugin struct {
		arguments `yaml:",inline"`
	}
)

// link is a session with a service. An engine and the sampler beside it share one.
type link struct {
	*tinker.Client
	arguments
	cfg  *model.Config
	spec engine.ServiceSpec

	mu    sync.Mutex
	users int
}

// dial begins a session, if the service has the base model, and takes sequences of so many tokens.
func (a *arguments) dial(ctx context.Context, path string, spec engine.ServiceSpec, length int, say func(string)) (_ *link, err error) {
	if spec.BaseModel == "" {
		return nil, errors.New("tinker: no base model is named: set model.tinker.enable to true; auxiliary models have other engines")
	}
	cfg, err := model.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	address, err := tinker.Address(spec.Address)
	if err != nil {
		return nil, fmt.Errorf("model.tinker.base_url: %w", err)
	}
	if say == nil {
		say = func(string) {}
	}
	client, err := tinker.Open(ctx, address, wait.Seconds(a.Patience), say)
	if err != nil {
		return nil, broken(err)
	}
	l := &link{Client: client, arguments: *a, cfg: cfg, spec: spec, users: 1}
	if err := l.check(ctx, length); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// check returns an error if the service lacks the base model. A service that lists nothing says so later.
func (l *link) check(ctx context.Context, length int) error {
	all, err := l.Models(ctx)
	if err != nil {
		return broken(err)
	}
	at := slices.IndexFunc(all, func(m tinker.Served) bool { return m.Name == l.spec.BaseModel })
	switch {
	case len(all) == 0:
		return nil
	case at < 0:
		var names []string
		for _, m := range all {
			names = append(names, m.Name)
		}
		return fmt.Errorf("tinker: %s has no base model %q: set model.tinker.base_model to one of %s", l.Service, l.spec.BaseModel,
			strings.Join(names, ", "))
	case all[at].Trainable != nil && !*all[at].Trainable:
		return fmt.Errorf("tinker: %s does not train %q: set model.model_path to another model", l.Service, l.spec.BaseModel)
	case all[at].MaxLength > 0 && all[at].MaxLength < length:
		return fmt.Errorf("tinker: %s takes sequences of %d tokens of %q, and model.max_model_len is %d: lower it", l.Service,
			all[at].MaxLength, l.spec.BaseModel, length)
	}
	return nil
}

// share returns the session for another user of it.
func (l *link) share() *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	return l
}

// release ends the session after its last user.
func (l *link) release() error {
	l.mu.Lock()
	l.users--
	last := l.users == 0
	l.mu.Unlock()
	if last {
		return l.Close()
	}
	return nil
}

// limited returns a context that ends when a request must have been computed.
func (l *link) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := wait.Seconds(l.Timeout)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("tinker: %s has not computed a request within timeout = %v", l.Service, limit))
}

// broken returns an error of the service as one that ends the run. A service that is gone may be there for the next attempt.
func broken(err error) error {
	if err == nil {
		return nil
	}
	if tinker.IsLost(err) {
		err = &trinity.LostError{Err: err}
	}
	return &trinity.EngineError{Err: err}
}

// OpenTrainer implements engine.TrainerOpener.
func (p *trainerPlugin) OpenTrainer(ctx context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	switch {
	case spec.Head != engine.LogprobHead:
		return nil, fmt.Errorf("tinker: a service trains no model with a %s head: choose an algorithm without a critic or a reward model",
			spec.Head)
	case spec.Train && spec.LoRA == nil:
		return nil, errors.New("tinker: a service trains adapters alone: set model.tinker.enable to true")
	case spec.Train && spec.LoRA.Path != "":
		return nil, fmt.Errorf("tinker: the adapter %s is on this machine, and the service trains its own: name the base model", spec.LoRA.Path)
	case spec.Train && spec.Optimizer.Type != "" && spec.Optimizer.Type != engine.AdamW:
		return nil, fmt.Errorf("tinker: optimizer %s: a service has adamw", spec.Optimizer.Type)
	}
	l, err := p.dial(ctx, spec.ModelPath, spec.Service, spec.MaxModelLen, spec.Say)
	if err != nil {
		return nil, err
	}
	return &trainer{link: l, spec: spec}, nil
}

// OpenScorer implements engine.TrainerOpener.
func (*trainerPlugin) OpenScorer(context.Context, engine.TrainerSpec) (trinity.Scorer, error) {
	return nil, errors.New("tinker: a service has no reward models: use a reward function")
}

// PlanMemory implements engine.TrainerOpener: the weights are elsewhere.
func (*trainerPlugin) PlanMemory(engine.TrainerSpec) ([]engine.MemoryPart, error) {
	return []engine.MemoryPart{}, nil
}

// Describe implements engine.TrainerOpener.
func (*trainerPlugin) Describe() string { return "a service over HTTP" }

// OpenSampler implements engine.SamplerOpener.
func (p *samplerPlugin) OpenSampler(ctx context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	if !spec.Shared {
		l, err := p.dial(ctx, spec.ModelPath, spec.Service, spec.MaxModelLen, spec.Say)
		if err != nil {
			return nil, err
		}
		return newSampler(l, spec), nil
	}
	e, ok := spec.Beside.(*trainer)
	if !ok {
		return nil, fmt.Errorf("tinker: the sampler shares the session of a trainer of its own kind, not of a %T", spec.Beside)
	}
	s := newSampler(e.link.share(), spec)
	e.attach(s)
	return s, nil
}

// PlanMemory implements engine.SamplerOpener.
func (*samplerPlugin) PlanMemory(engine.SamplerSpec) ([]engine.MemoryPart, error) {
	return []engine.MemoryPart{}, nil
}

// Describe implements engine.SamplerOpener.
func (*samplerPlugin) Describe() string { return "a service over HTTP" }
