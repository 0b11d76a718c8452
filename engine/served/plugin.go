package served

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/model"
)

// arguments are what each plug-in of this package takes.
type arguments struct {
	Model        string  `yaml:"model" doc:"name of the model on its server; empty is the first that the server lists"`
	SharedDisk   bool    `yaml:"shared_disk" doc:"servers on other machines see the run's directory under the same path, to load weights"`
	StartTimeout float64 `yaml:"start_timeout" range:"(0,inf]" doc:"seconds until a server answers when the run starts, then has sampled"`
	LoadTimeout  float64 `yaml:"load_timeout" range:"(0,inf]" doc:"seconds that servers may take to load a version, to fall asleep or to wake"`
}

func defaults() arguments { return arguments{StartTimeout: 60, LoadTimeout: 600} }

// open greets the servers and finds out what they can do. own are those that the run has started, and
// end with the sampler; nil if they run already.
func (a *arguments) open(ctx context.Context, spec engine.SamplerSpec, own *owned, k kind) (_ trinity.Sampler, err error) {
	defer func() {
		if err != nil {
			own.close()
		}
	}()
	cfg, err := model.ReadConfig(spec.ModelPath)
	switch {
	case err != nil:
		return nil, err
	case len(spec.Servers) == 0:
		return nil, errors.New("base_urls names no server")
	case spec.Shared:
		return nil, errors.New("servers share no memory with the engine that trains: set synchronizer.sync_method to directory")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.IdleConnTimeout = 4 * time.Second // vLLM's server closes idle connections after 5 s
	transport.MaxIdleConnsPerHost = max(2, spec.MaxSequences)
	say := spec.Say
	if say == nil {
		say = func(string) {}
	}
	needs, err := needsOf(&spec, cfg)
	if err != nil {
		return nil, err
	}
	routes, err := routerOf(cfg, spec.Record.Routes)
	if err != nil {
		return nil, err
	}
	list := &servers{
		own: own, say: say, patience: cmp.Or(spec.Patience, 30*time.Minute), limit: wait.Seconds(a.LoadTimeout), adapter: spec.LoRA != nil,
		shares: own != nil && spec.Start.Place.Beside != "", mark: "trinity-" + strings.ToLower(rand.Text()[:8]),
	}
	s := newSampler(list, checker{
		vocab: cfg.VocabSize, eos: cfg.EOS, length: cmp.Or(spec.MaxModelLen, cfg.MaxPositions), rank: needs.rank,
		record: spec.Record.Tokens, router: routes, scores: spec.Scores, tokens: spec.Tokens, image: imageToken(cfg),
	})
	s.idle, s.loader.files, s.loader.proofs.model = transport.CloseIdleConnections, filesOf(cfg, spec.LoRA != nil), spec.ModelPath
	s.loader.bucket, s.loader.phase = cmp.Or(spec.Bucket, bucketBytes), min(phaseTime, list.limit/2)
	own.lead(transport)
	if own != nil {
		s.pool.turn = own.turn
		own.pool.Store(s.pool)
	}
	for _, address := range spec.Servers {
		root, err := openai.Root(address)
		if err != nil {
			return nil, err
		}
		client := &openai.Client{BaseURL: root, Key: cmp.Or(spec.Key, openai.NoKey), HTTP: &http.Client{Transport: transport}}
		target := &server{url: root}
		target.seen = time.Now()
		if target.endpoint, err = a.greet(ctx, client, k); err != nil {
			return nil, err
		}
		if err := a.trust(ctx, &s.checker, target, say); err != nil {
			return nil, err
		}
		if own == nil { // servers that the run starts read the same files
			if err := s.checker.checkProcessor(ctx, target, spec.ModelPath, isHere(root), say); err != nil {
				return nil, err
			}
		}
		if !a.SharedDisk && !own.isHere(root) && !a.fetches(ctx, target.endpoint) {
			s.loader.mayLoad = fmt.Errorf("%s is on another machine: if it sees the run's directory under the same path, "+
				"set explorer.rollout_model.engine_args.shared_disk to true; else use vLLM, and %s", root, withPlugIn)
		}
		list.all = append(list.all, target)
	}
	if spec.LoRA != nil && spec.LoRA.Path != "" && !spec.Follows {
		if err := s.LoadWeights(ctx, spec.LoRA.Path, 0); err != nil {
			return nil, both(err, s.Close())
		}
	}
	return s, nil
}

// needs are what a sampler's adapters demand of a server.
type needs struct {
	rank    int  // the largest; 0 if there are none
	experts bool // some adapt the experts of a mixture
}

// needsOf returns what the adapters of a sampler need. It refuses those that servers do not take.
func needsOf(spec *engine.SamplerSpec, cfg *model.Config) (n needs, err error) {
	paths := spec.Adapters
	switch {
	case spec.LoRA == nil:
		return n, nil
	case spec.LoRA.Path == "":
		n = needs{spec.LoRA.LoraRank, len(spec.LoRA.TargetParameters) > 0}
		if namesHead(spec.LoRA) {
			return n, errors.New("target_modules names " + ofTheHead)
		}
		if halfOfExperts(spec.LoRA.TargetParameters) {
			return n, errors.New("target_parameters names " + ofHalf)
		}
	default:
		paths = append(slices.Clip(paths), spec.LoRA.Path)
	}
	for _, path := range paths {
		a, err := model.OpenAdapter(path, cfg)
		if err != nil {
			return n, err
		}
		n = needs{max(n.rank, a.Rank), n.experts || len(a.TargetParameters) > 0}
		if err := both(servable(a, path), a.Close()); err != nil {
			return n, err
		}
	}
	return n, nil
}

// greet asks a server who it is, until it answers.
func (a *arguments) greet(ctx context.Context, client *openai.Client, k kind) (endpoint, error) {
	ctx, cancel := a.starting(ctx)
	defer cancel()
	for {
		e, err := k.greet(ctx, client)
		if err == nil || ctx.Err() == nil && !retry.IsTemporary(err) {
			return e, err
		}
		if late := rest(ctx, 500*time.Millisecond); late != nil {
			return nil, fmt.Errorf("%s: %w: %w", client.BaseURL, late, err)
		}
	}
}

// pausable is an endpoint whose server tells whether it is paused.
type pausable interface {
	// resumeIfPaused resumes the server if it is paused, and reports whether it was.
	resumeIfPaused(ctx context.Context) bool
}

// trust asks a server that has greeted what it can do. One that is paused says who it is, and then
// holds back its answers. A run that was killed in a load may have left it so.
func (a *arguments) trust(ctx context.Context, c *checker, s *server, say func(string)) error {
	limited, cancel := a.starting(ctx)
	defer cancel()
	err := c.trust(limited, s, say)
	if p, ok := s.endpoint.(pausable); err == nil || limited.Err() == nil || !ok || !p.resumeIfPaused(ctx) {
		return err
	}
	again, cancel := a.starting(ctx)
	defer cancel()
	return c.trust(again, s, say)
}

// fetches reports whether a server says in time that it fetches weights over HTTP.
func (a *arguments) fetches(ctx context.Context, e endpoint) bool {
	f, ok := e.(fetcher)
	ctx, cancel := a.starting(ctx)
	defer cancel()
	return ok && f.fetches(ctx)
}

// starting returns a context that ends when start_timeout has passed.
func (a *arguments) starting(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := wait.Seconds(a.StartTimeout)
	return within(ctx, limit, "no answer within start_timeout of %v", limit)
}

// isHere reports whether a server is on this machine.
func isHere(root string) bool {
	u, err := url.Parse(root)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
