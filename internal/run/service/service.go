// Package service opens the models that a service trains and samples for its clients.
package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/serve/tinker"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// Options say what a service serves.
type Options struct {
	Dir              string // of checkpoints
	Models           []Model
	Trainer, Sampler string // plug-ins
	Address, Token   string
	MaxLen           int // tokens of a sequence; 0 is the model's length, at most usualLength
	Alpha            int // lora_alpha of new adapters
	Gap              time.Duration
	Say              func(string)
}

// Model is a model that clients call by a name.
type Model struct{ Name, Path string }

const (
	usualLength = 4096
	microTokens = 2048             // tokens that a trainer computes at once
	sequences   = 64               // that a sampler samples at once
	hold        = 40 * time.Second // the SDK gives up after 45
)

// Run trains and samples for clients until ctx ends.
func Run(ctx context.Context, o Options) (err error) {
	options := tinker.Options{Dir: o.Dir, Alpha: o.Alpha, Gap: o.Gap, Hold: hold, Token: o.Token, Say: o.Say}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	for i, m := range o.Models {
		if slices.ContainsFunc(o.Models[:i], func(other Model) bool { return other.Name == m.Name }) {
			return fmt.Errorf("the model %s is given twice: give it another name, NAME=PATH", m.Name)
		}
		base, closing, err := openBase(ctx, &o, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		defer closing()
		options.Bases = append(options.Bases, base)
	}
	server, err := tinker.New(options)
	if err != nil {
		return err
	}
	listener, err := web.Listen(ctx, o.Address, o.Token)
	if err != nil {
		return err
	}
	key, address := "tml-local", listener.Addr().String()
	if o.Token != "" {
		key = "$TRINITY_TOKEN"
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok {
		address = web.Reachable(at)
	}
	o.Say(fmt.Sprintf("serves at http://%s: TINKER_BASE_URL=http://%[1]s TINKER_API_KEY=%s", address, key))
	eg, serving := errgroup.WithContext(ctx)
	eg.Go(func() error { return server.Run(serving) })
	eg.Go(func() error {
		shell := &web.Server{Handler: server.Handler(), Read: time.Minute, Write: 5 * time.Minute, Grace: time.Second}
		return shell.Serve(serving, listener)
	})
	if err := eg.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// openBase opens the sampler of a model, and says how to open its trainers.
func openBase(ctx context.Context, o *Options, m Model) (*tinker.Base, func(), error) {
	cfg, err := model.ReadConfig(m.Path)
	if err != nil {
		return nil, nil, err
	}
	text, err := renderer.Open(m.Path, renderer.Options{})
	if err != nil {
		return nil, nil, err
	}
	trainers, err := registry.Trainers.Build(o.Trainer)
	if err != nil {
		return nil, nil, err
	}
	samplers, err := registry.Samplers.Build(o.Sampler)
	if err != nil {
		return nil, nil, err
	}
	length := o.MaxLen
	if length == 0 {
		length = min(cfg.MaxPositions, usualLength)
	}
	scored := min(length+2, cfg.MaxPositions) // a whole sequence, a token that is scored, and one that is sampled
	sampler, err := samplers.OpenSampler(ctx, engine.SamplerSpec{
		ModelPath: m.Path, MaxSequences: sequences, MaxModelLen: scored, Text: text.Decode, Tokens: text.Encode,
	})
	if err != nil {
		return nil, nil, err
	}
	closing := func() {
		if c, ok := sampler.(interface{ Close() error }); ok {
			_ = c.Close() // the service ends
		}
	}
	b := &tinker.Base{
		Name: m.Name, Tokenizer: m.Name, Arch: cfg.Architecture, Vocab: cfg.VocabSize, MaxLen: length, MaxScored: scored,
		MaxRank: cfg.HiddenSize, EOS: cfg.EOS, MicroTokens: max(microTokens, length),
		Open: func(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
			return trainers.OpenTrainer(ctx, engine.TrainerSpec{
				ModelPath: m.Path, LoRA: lora, Seed: seed, Train: true, MicroTokens: max(microTokens, length), MaxModelLen: length + 1,
			})
		},
	}
	var ok bool
	if b.Sampler, ok = sampler.(tinker.Sampler); !ok {
		closing()
		return nil, nil, errors.New("the sampler " + o.Sampler + " does not hold several adapters at once")
	}
	return b, closing, nil
}
