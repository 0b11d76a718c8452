package served_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

// starter is engine.Programs whose programs are doors before fake servers.
type starter struct {
	t       *testing.T
	tells   func(start int) server.Lie                                      // nil: all are honest
	fails   func(ctx context.Context, name string) error                    // before a server starts; nil starts all
	options server.Options                                                  // beside those that all have
	kind    func(server.Host, trinity.Sampler, server.Options) *server.Fake // nil is server.VLLM
	mu      sync.Mutex
	all     []*program
}

// program is a fake server that has been started.
type program struct {
	name    string
	fake    *server.Fake
	web     *httptest.Server
	gone    chan struct{}
	end     sync.Once
	stopped chan struct{}
	stop    sync.Once
}

func (s *starter) Start(ctx context.Context, p engine.Program) (engine.Running, error) {
	if s.fails != nil {
		if err := s.fails(ctx, p.Name); err != nil {
			return nil, err
		}
	}
	o := s.options
	o.Vocab, o.MaxLen, o.Develops = vocab, 32, true
	kind := s.kind
	if kind == nil {
		kind = server.VLLM
	}
	fake := kind(s.t, own(s.t), o)
	to, err := url.Parse(fake.URL)
	if err != nil {
		return nil, err
	}
	started := &program{
		name: p.Name, fake: fake, web: httptest.NewServer(httputil.NewSingleHostReverseProxy(to)),
		gone: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.t.Cleanup(started.close)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, started)
	if s.tells != nil {
		fake.Tell(s.tells(len(s.all)))
	}
	return started, nil
}

// started returns the n-th start of a program, for which it waits.
func (s *starter) started(name string, n int) *program {
	s.t.Helper()
	for range 10000 {
		s.mu.Lock()
		count := 0
		for _, p := range s.all {
			if p.name != name {
				continue
			}
			if count++; count == n {
				s.mu.Unlock()
				return p
			}
		}
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	s.t.Fatalf("%s was not started %d times", name, n)
	return nil
}

// areStopped checks that no program is left.
func (s *starter) areStopped() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.all {
		select {
		case <-p.stopped:
		default:
			s.t.Errorf("start %d, of %s, was not stopped", i, p.name)
		}
	}
}

func (p *program) Address() string       { return strings.TrimPrefix(p.web.URL, "http://") }
func (p *program) Gone() <-chan struct{} { return p.gone }
func (p *program) Err() error            { return errors.New(p.name + ": killed") }

func (p *program) Stop(context.Context) error {
	p.stop.Do(func() { close(p.stopped) })
	p.close()
	return nil
}

// close ends the program, as kill would.
func (p *program) close() {
	p.end.Do(func() {
		p.web.CloseClientConnections()
		p.web.Close()
		close(p.gone)
	})
}

// startsOf is the specification of a run that starts servers.
func startsOf(s *starter, engines int) engine.SamplerSpec {
	with := spec()
	with.Start = engine.ServerSpec{Engines: engines, DType: "float32", Place: engine.Place{Programs: s, Nodes: 1}}
	return with
}

// The run reaches the servers that it starts by their names, and ends them.
func TestStartedServers(t *testing.T) {
	for plugin, kind := range map[string]func(server.Host, trinity.Sampler, server.Options) *server.Fake{
		"vllm": server.VLLM, "sglang": server.SGLang,
	} {
		t.Run(plugin, func(t *testing.T) {
			s := &starter{t: t, kind: kind}
			sampler, err := open(t, plugin, startsOf(s, 2), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := sampler.(weights.Loader).LoadWeights(t.Context(), tiny, 3); err != nil {
				t.Fatal(err)
			}
			out, err := sampler.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{N: 8, MaxTokens: 3})
			if err != nil || out[7].Versions != [2]int64{3, 3} {
				t.Errorf("%+v, %v", out, err)
			}
			for i := range 2 {
				if p := s.started(fmt.Sprint("rollout-", i), 1); p.fake.Asked() == 0 || len(p.fake.Loads()) != 1 {
					t.Errorf("%s: asked %d times, loaded %q", p.name, p.fake.Asked(), p.fake.Loads())
				}
			}
			closeSampler(t, sampler)
			s.areStopped()
			if len(s.all) != 2 {
				t.Errorf("%d programs were started, want 2", len(s.all))
			}
		})
	}
}

// A server that has ended is started again at another address, gets the newest weights and samples.
func TestServerIsStartedAgain(t *testing.T) {
	s := &starter{t: t}
	with := startsOf(s, 1)
	var mu sync.Mutex
	said := ""
	with.Say = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said += line + "\n"
	}
	sampler := served.Hasten(must(t, "vllm", with))
	if err := sampler.(weights.Loader).LoadWeights(t.Context(), tiny, 7); err != nil {
		t.Fatal(err)
	}
	first := s.started("rollout-0", 1)
	first.close()
	second := s.started("rollout-0", 2)
	out, err := sampler.Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, trinity.SamplingParams{MaxTokens: 3})
	if err != nil || out[0].Versions != [2]int64{7, 7} {
		t.Errorf("%+v, %v", out, err)
	}
	if loads := second.fake.Loads(); len(loads) != 1 || loads[0] != first.fake.Loads()[0] {
		t.Errorf("the second start has loaded %q, the first one %q", loads, first.fake.Loads())
	}
	closeSampler(t, sampler)
	s.areStopped()
	mu.Lock()
	defer mu.Unlock()
	if want := "rollout-0: killed; it is started again"; strings.Count(said, want) != 1 {
		t.Errorf("said %q, want %q once", said, want)
	}
}

// A server that ends again and again before it has been of use is given up after growing pauses, and one
// line says so. One that has been of use meanwhile is started on and on.
func TestServerThatEndsAtOnce(t *testing.T) {
	for _, ofUse := range []bool{false, true} {
		s := &starter{t: t}
		var mu sync.Mutex
		starts := 0
		s.fails = func(context.Context, string) error {
			mu.Lock()
			defer mu.Unlock()
			if starts++; starts > 1 && !ofUse {
				return fmt.Errorf("starting rollout-0: no memory at start %d", starts)
			}
			return nil
		}
		with := startsOf(s, 1)
		sampler := served.Hasten(must(t, "vllm", with))
		loader := sampler.(weights.Loader)
		if err := loader.LoadWeights(t.Context(), tiny, 1); err != nil {
			t.Fatal(err)
		}
		if ofUse {
			for n := range 8 {
				s.started("rollout-0", n+1).close()
				s.started("rollout-0", n+2)
				if _, err := sampled(t, sampler); err != nil {
					t.Fatal(err)
				}
			}
			closeSampler(t, sampler)
			continue
		}
		s.started("rollout-0", 1).close()
		_, err := sampled(t, sampler)
		const want = "starting rollout-0: no memory at start 6; it was started 6 times and has never been of use since: it is not started again"
		if fatal := new(trinity.EngineError); !errors.As(err, &fatal) || !strings.Contains(err.Error(), want) {
			t.Errorf("sampling: %v, want %q", err, want)
		}
		if err := loader.LoadWeights(t.Context(), tiny, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("loading: %v, want %q", err, want)
		}
		closeSampler(t, sampler)
		s.areStopped()
	}
}

// If a server cannot start, those that still start are given up, the others are stopped, and one line
// says why.
func TestServerThatCannotStart(t *testing.T) {
	s := &starter{t: t}
	s.fails = func(ctx context.Context, name string) error {
		switch name {
		case "rollout-1":
			s.started("rollout-0", 1)
			return errors.New("starting rollout-1: no vllm")
		case "rollout-2":
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	_, err := open(t, "vllm", startsOf(s, 3), nil)
	if err == nil || err.Error() != "starting rollout-1: no vllm" {
		t.Errorf("got %v", err)
	}
	s.areStopped()
}

// A run that is ended while servers start leaves none.
func TestStartIsCancelled(t *testing.T) {
	s := &starter{t: t}
	ctx, cancel := context.WithCancelCause(t.Context())
	s.fails = func(ctx context.Context, name string) error {
		if name == "rollout-0" {
			return nil
		}
		s.started("rollout-0", 1)
		cancel(errors.New("the run ends"))
		<-ctx.Done()
		return context.Cause(ctx)
	}
	opener := build(t, "vllm", nil)
	if _, err := opener.OpenSampler(ctx, startsOf(s, 2)); err == nil || err.Error() != "the run ends" {
		t.Errorf("got %v", err)
	}
	s.areStopped()
}

// Servers that the run has started and cannot use are stopped.
func TestStartedServerIsRefused(t *testing.T) {
	s := &starter{t: t}
	with := startsOf(s, 2)
	with.MaxModelLen = 64 // the fakes take 32
	if _, err := open(t, "vllm", with, nil); err == nil || !strings.Contains(err.Error(), "takes 32 tokens") {
		t.Errorf("got %v", err)
	}
	s.areStopped()
	if len(s.all) != 2 {
		t.Errorf("%d programs were started, want 2", len(s.all))
	}
}
