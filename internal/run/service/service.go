// Package service opens the models that a service trains and samples for its clients.
package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/serve/finetune"
	"github.com/trinity-go/trinity/internal/serve/gateway"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/tinker"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// Options say what a service serves.
type Options struct {
	Dir              string // of checkpoints, and of what a service needs to go on after its end
	Models           []Model
	Trainer, Sampler string // plug-ins
	TrainerArgs      map[string]any
	SamplerArgs      map[string]any // also of the servers that it starts or reaches
	Address, Token   string
	MaxLen           int // tokens of a sequence; 0 is the model's length, at most usualLength
	Alpha            int // lora_alpha of new adapters
	Gap              time.Duration
	Keep             time.Duration // of responses, which requests continue by previous_response_id
	Say              func(string)
}

// Model is a model that clients call by a name.
type Model struct{ Name, Path string }

const (
	usualLength = 4096
	microTokens = 2048             // tokens that a trainer computes at once
	sequences   = 64               // that a sampler samples at once
	hold        = 40 * time.Second // the SDK gives up after 45
	idle        = 10 * time.Minute // a loop that samples comes back sooner
)

// Run trains and samples for clients until ctx ends.
func Run(ctx context.Context, o Options) (err error) {
	options := tinker.Options{Dir: o.Dir, Alpha: o.Alpha, Gap: o.Gap, Hold: hold, Idle: idle, Token: o.Token, Say: o.Say}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	lock, err := durable.TakeLock(o.Dir, "service", "trinity service")
	if other := (durable.Held{}); errors.As(err, &other) {
		return fmt.Errorf("the directory %s is that of %w: end it, or pass another --dir", o.Dir, other)
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := o.check(); err != nil {
		return err
	}
	for _, m := range o.Models {
		base, closing, err := openBase(ctx, &o, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		defer closing()
		options.Bases = append(options.Bases, base)
	}
	var server *tinker.Server
	jobs, err := openJobs(&o, func() *tinker.Server { return server })
	if err != nil {
		return err
	}
	options.Made = madeBy(jobs)
	if server, err = tinker.New(options); err != nil {
		return err
	}
	listener, err := web.Listen(ctx, o.Address, server.Secret())
	if err != nil {
		return err
	}
	key, address := "tml-local", listener.Addr().String()
	if o.Token != "" {
		key = "$TRINITY_TOKEN"
	} else if server.NeedsKey() {
		key = "KEY, one that trinity keys add has printed"
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok {
		address = web.Reachable(at)
	}
	o.Say(fmt.Sprintf("serves at http://%s: TINKER_BASE_URL=http://%[1]s TINKER_API_KEY=%s", address, key))
	eg, serving := errgroup.WithContext(ctx)
	eg.Go(func() error { return server.Run(serving) })
	eg.Go(func() error { return jobs.Run(serving) })
	eg.Go(func() error {
		handler := handler(server, jobs, o.Keep)
		shell := &web.Server{Handler: handler, Read: time.Minute, Write: tinker.WordsTime + time.Minute, Grace: time.Second}
		return shell.Serve(serving, listener)
	})
	if err := eg.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// check returns what is wrong with a service before it opens models, which takes a while.
func (o *Options) check() error {
	for i, m := range o.Models {
		if slices.ContainsFunc(o.Models[:i], func(other Model) bool { return other.Name == m.Name }) {
			return fmt.Errorf("the model %s is given twice: give it another name, NAME=PATH", m.Name)
		}
	}
	keys, err := tinker.ReadKeys(o.Dir)
	if host, _, _ := net.SplitHostPort(o.Address); err != nil || host == "" || o.Token == "" && len(keys) > 0 {
		return err
	}
	if err = web.CheckToken(o.Address, o.Token); err != nil && o.Token == "" {
		return fmt.Errorf("%w: trinity keys add NAME --dir %s adds a key, or set TRINITY_TOKEN", err, o.Dir)
	}
	return err
}

// length returns how many tokens a sequence of a model may have.
func (o *Options) length(cfg *model.Config) int {
	if o.MaxLen > 0 {
		return o.MaxLen
	}
	return min(cfg.MaxPositions, usualLength)
}

// handler returns the handler of all APIs.
func handler(server *tinker.Server, jobs *finetune.Server, keep time.Duration) http.Handler {
	words := gateway.ServedBy(server.Words(), keep)
	at := func(path string) http.Handler {
		return server.Guard(words, func(w http.ResponseWriter, status int, err error) {
			p := &openai.Problem{Status: status, Code: "forbidden", Message: err.Error()}
			if status == http.StatusUnauthorized {
				p.Code = "invalid_api_key"
			}
			gateway.Fail(w, path, p)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/", server.Handler())
	for _, path := range []string{"/v1/", "/v1/messages", "/v1/messages/"} { // the last two refuse as Anthropic does
		mux.Handle(path, at(path))
		mux.Handle(hosted+path, http.StripPrefix(hosted, at(path)))
	}
	serveJobs(mux, server, jobs)
	return mux
}

// hosted is where the hosted service has OpenAI's API.
const hosted = "/oai/api"

// openBase opens a model: its sampler, and what its trainers share.
func openBase(ctx context.Context, o *Options, m Model) (*tinker.Base, func(), error) {
	cfg, err := model.ReadConfig(m.Path)
	if err != nil {
		return nil, nil, err
	}
	text, err := renderer.Open(m.Path, renderer.Options{})
	if err != nil {
		return nil, nil, err
	}
	trainers, err := registry.Trainers.Build(o.Trainer, o.TrainerArgs)
	if err != nil {
		return nil, nil, err
	}
	samplers, servers, err := samplerOf(o)
	if err != nil {
		return nil, nil, err
	}
	length := o.length(cfg)
	scored := min(length+2, cfg.MaxPositions) // a whole sequence, a token that is scored, and one that is sampled
	sample := engine.SamplerSpec{ModelPath: m.Path, MaxSequences: sequences, MaxModelLen: scored}
	if text != nil { // the directory has a tokenizer
		sample.Text, sample.Tokens = text.Decode, text.Encode
	}
	places, err := placesOf(o, m)
	if err != nil {
		return nil, nil, err
	}
	maxRank := cfg.HiddenSize
	if servers != nil {
		maxRank, sample.MaxModelLen, sample.Say = servers.MaxRank, length, o.Say // servers score nothing, so they need no further token
		_, trains := trainers.(trainerStarter)
		if err := servers.on(&sample, m, places, trains); err != nil {
			return nil, nil, err
		}
	}
	sampling, err := samplers.PlanMemory(sample)
	if err != nil {
		return nil, nil, err
	}
	adapters, training, err := newAdapters(ctx, trainers, engine.TrainerSpec{
		ModelPath: m.Path, Train: true, MicroTokens: max(microTokens, length), MaxModelLen: length + 1,
		Place: places.trainer, Dir: filepath.Join(o.Dir, "programs", fileName(m)), Say: o.Say,
	})
	if err != nil {
		return nil, nil, err
	}
	err = adapters.describe(m.Name, append(training, sampling...), o.Say)
	var sampler trinity.Sampler
	if err == nil {
		sampler, err = samplers.OpenSampler(ctx, sample)
	}
	if err != nil {
		return nil, nil, errors.Join(err, adapters.close())
	}
	closing := func() { // when the service ends, and all trainers have
		if c, ok := sampler.(interface{ Close() error }); ok {
			_ = c.Close()
		}
		if err := adapters.close(); err != nil {
			o.Say(err.Error())
		}
	}
	weights, err := checkpoint.DeepFingerprint(m.Path, checkpoint.IsWeights)
	if err != nil {
		closing()
		return nil, nil, err
	}
	b := &tinker.Base{
		Weights: weights, Name: m.Name, Tokenizer: m.Name, Arch: cfg.Architecture, Vocab: cfg.VocabSize, MaxLen: length, MaxScored: scored,
		MaxRank: maxRank, OnServers: servers != nil, Sequences: sequences, EOS: cfg.EOS, MicroTokens: max(microTokens, length),
		Open: adapters.open,
	}
	if text != nil { // the directory has a tokenizer
		b.Text, b.Constrain = text, text.Constrain
	}
	var ok bool
	if b.Sampler, ok = sampler.(tinker.Sampler); !ok {
		closing()
		return nil, nil, errors.New("the sampler " + o.Sampler + " does not hold several adapters at once")
	}
	return b, closing, nil
}
