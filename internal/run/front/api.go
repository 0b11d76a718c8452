// Package front is how others reach a stage: the API of its model, the traffic that it records, and the place of its
// trainer.
package front

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/serve/gateway"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/internal/wait"
)

// API answers the OpenAI API with the rollout model of a stage.
type API struct {
	*openai.Server
	stage *settle.Stage
	keep  time.Duration
}

// usualKeep is how long responses are kept, so that later ones may continue them, unless somebody says otherwise.
const usualKeep = 24 * time.Hour

// New returns the API of a stage whose sampler is open. name is how requests call the model. Responses are kept for a
// time; 0 is the usual one.
func New(s *settle.Stage, name string, sampler trinity.Sampler, token string, keep time.Duration, say func(string)) *API {
	served := &openai.Served{
		Name: name, Sampler: sampler, Renderer: s.Text, Params: feed.Sampling(s.Settled, &config.RolloutArgs{}, false),
		MaxLen: config.Value(0, s.Model.MaxModelLen),
	}
	if s.Text != nil {
		served.Constrain = s.Text.Constrain
	}
	if loader, ok := sampler.(engine.AdapterLoader); ok {
		served.Adapters = loader.Adapters
	}
	return &API{&openai.Server{
		Name: name, Model: served.Of, Adapters: served.Adapters, Renderer: s.Text, VocabSize: s.Vocabulary(),
		Timeout: wait.Seconds(s.Explorer.MaxTimeout), Token: token, Waiting: 256, Say: say,
	}, s, cmp.Or(keep, usualKeep)}
}

// Handler returns the handler of all dialects of the API.
func (a *API) Handler() http.Handler { return gateway.Served(a.Server, a.keep) }

// Process passes the groups of a delivery on to the trainer, with counts of the traffic.
type Process func(ctx context.Context, step int64, groups []trinity.Group, counts trinity.Metrics) ([]trinity.Group, error)

// OpenTraffic records the rollouts of clients that ask for it. process passes a delivery on to the trainer.
func (a *API) OpenTraffic(
	ctx context.Context, sink *fleet.Client, learner func(trinity.SamplingParams) *trinity.Model, process Process,
) (*gateway.Traffic, error) {
	s := a.stage
	return gateway.OpenTraffic(ctx, gateway.TrafficOptions{
		Dir: filepath.Join(s.Buffer.CacheDir, "traffic"), Token: a.Token, Name: a.Name, Task: path.Join("traffic", feed.OwnName(s.Settled)) + "/",
		Expiry: wait.Seconds(s.Explorer.PendingExpiry), Timeout: a.Timeout, Waiting: a.Waiting,
		Group: s.Method.GroupSize, Compares: s.Method.Needs.Group, Batch: s.Buffer.BatchSize,
		Renderer: s.Text, Vocabulary: a.VocabSize, Say: a.Say, Process: process, Sink: sink,
		Model: func() *trinity.Model {
			m := learner(feed.Sampling(s.Settled, &config.RolloutArgs{}, true))
			m.Params.Seed = rand.Uint64() // nobody repeats real traffic
			return m
		},
	})
}

// Serve serves until ctx is cancelled. Requests in flight then get a short time to end.
func (a *API) Serve(ctx context.Context, handler http.Handler) error {
	e := &a.stage.Explorer
	listener, err := web.Listen(ctx, net.JoinHostPort(e.ListenAddress, strconv.Itoa(e.ProxyPort)), a.Token)
	if err != nil {
		return fmt.Errorf("explorer.listen_address, explorer.proxy_port: %w", err)
	}
	a.Say("serves " + a.Name + " at " + web.Addresses(listener))
	server := &web.Server{Handler: handler, Read: time.Minute, Write: a.Timeout + 2*time.Minute, Grace: 5 * time.Second}
	if err := server.Serve(ctx, listener); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Key returns the key that clients must send, or "". It is an error if other machines can reach the server
// and could guess the key.
func Key(s *config.Settled) (string, error) {
	e := &s.Explorer
	key := os.Getenv(tokenVariable)
	if key == "" && e.RolloutModel.APIKey != "EMPTY" {
		key = e.RolloutModel.APIKey
	}
	if err := web.CheckToken(e.ListenAddress, key); err != nil {
		return "", s.At("explorer.listen_address", err.Error(), "set "+tokenVariable+" to a key that clients send, or the address to 127.0.0.1")
	}
	return key, nil
}

// tokenVariable is the environment variable with the token that explorers and the trainer share.
const tokenVariable = "TRINITY_TOKEN"

// TrainerPlace returns the place of the trainer whose weights to serve, or nil.
func TrainerPlace(s *config.Settled, join string) (fleet.Place, error) {
	if join != "" {
		return fleet.At(join, os.Getenv(tokenVariable))
	}
	if place := fleet.In(s.CheckpointJobDir); fleet.Known(place) {
		return place, nil
	}
	return nil, nil
}

// TrainerToken returns the token that explorers must send to the trainer. It is an error if other machines can reach the
// trainer and could guess the token.
func TrainerToken(s *config.Settled) (string, error) {
	token := cmp.Or(os.Getenv(tokenVariable), fleet.NewToken())
	if err := web.CheckToken(s.Trainer.ListenAddress, token); err != nil {
		return "", s.At("trainer.listen_address", err.Error(), "set "+tokenVariable+" to a longer token, or leave it out")
	}
	return token, nil
}
