package run

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/weights"
)

// serve answers the OpenAI API with the rollout model until somebody stops it. If the run has a
// trainer, serve loads each version that the trainer publishes. Otherwise it uses the newest
// checkpoint with a model, or the base model.
func (s *stage) serve(ctx context.Context, opts Options) error {
	token, err := apiKey(s.Settled)
	if err != nil {
		return err
	}
	place, err := trainerPlace(s.Settled, opts)
	if err != nil {
		return err
	}
	if s.Records() && place == nil {
		return s.At("explorer.pending_expiry", "records traffic for a trainer, and there is none",
			"start the trainer first, or name its address with --join, or set it to 0")
	}
	name := servedName(&s.Model)
	step, err := s.newestModel()
	if err != nil && place == nil {
		return err
	}
	if err := s.openModels(ctx, false, true); err != nil {
		return err
	}
	if err := loadCheckpoint(ctx, s, step); err != nil {
		return err
	}
	served := &openai.Served{
		Name: name, Sampler: s.models.Sampler, Renderer: s.Text, Params: feed.Sampling(s.Settled, &config.RolloutArgs{}, false), MaxLen: config.Value(0, s.Model.MaxModelLen),
	}
	api := &openai.Server{
		Name: name, Model: served.Of, Renderer: s.Text, VocabSize: s.Text.Tokenizer().VocabSize(),
		Timeout: wait.Seconds(s.Explorer.MaxTimeout), Token: token, Waiting: 256, Say: s.say,
	}
	if s.Records() {
		return traffic{s}.serve(ctx, place, api, opts.Stage)
	}
	eg, ctx := errgroup.WithContext(ctx)
	if place != nil {
		sync := &s.Synchronizer
		follower, err := s.follower(fleet.NewClient("", sync.SyncStyle, wait.Seconds(sync.SyncTimeout), place))
		if err != nil {
			return err
		}
		follower.Observer = true
		eg.Go(func() error {
			defer follower.Close()
			return follower.Follow(ctx)
		})
	}
	eg.Go(func() error { return s.answer(ctx, api, api.Handler()) })
	return eg.Wait()
}

// servedName returns the name by which clients ask for the model: that of the adapter which
// model.model_path names, else that of the model.
func servedName(m *config.Model) string {
	if loras := m.LoraConfigs; len(loras) > 0 && loras[0].Path != "" {
		return checkpoint.ModelName(loras[0].Path)
	}
	return checkpoint.ModelName(m.ModelPath)
}

// apiKey returns the key that clients must send, or "". A server that other machines can reach must
// have one that nobody can guess.
func apiKey(s *config.Settled) (string, error) {
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

// trainerPlace returns the place of the trainer whose weights to serve, or nil.
func trainerPlace(s *config.Settled, opts Options) (fleet.Place, error) {
	if opts.Join != "" {
		return fleet.At(opts.Join, os.Getenv(tokenVariable))
	}
	if place := fleet.In(s.CheckpointJobDir); fleet.Known(place) {
		return place, nil
	}
	return nil, nil
}

// newestModel replaces the base model by that of the newest checkpoint that has a model, and returns
// the checkpoint's step. Without such a checkpoint that is 0.
func (s *stage) newestModel() (step int64, err error) {
	steps, err := s.stepsWithModel()
	if err != nil || len(steps) == 0 {
		return 0, err
	}
	step = steps[len(steps)-1]
	dir := filepath.Join(s.checkpoints.Of(step), s.ModelDir())
	s.say("serves the model of " + dir)
	if len(s.Model.LoraConfigs) > 0 {
		s.Model.LoraConfigs = withPath(s.Model.LoraConfigs, dir)
	} else {
		s.ModelPath = dir
	}
	return step, nil
}

// follower returns a follower that loads the weights of a trainer into the sampler.
func (s *stage) follower(client *fleet.Client) (*weights.Follower, error) {
	loader, ok := s.models.Sampler.(weights.Loader)
	if !ok {
		return nil, fmt.Errorf("engine %s cannot take weights from a trainer", s.Engines.Sample)
	}
	dir, err := os.MkdirTemp(s.CheckpointJobDir, ".serve_")
	if err != nil {
		return nil, err
	}
	load := func(ctx context.Context, dir string, version int64) error {
		if err := loader.LoadWeights(ctx, dir, version); err != nil {
			return err
		}
		s.say(fmt.Sprintf("serves version %d", version))
		return nil
	}
	timeout := wait.Seconds(s.Synchronizer.SyncTimeout)
	follower := &weights.Follower{Trainer: client, Dir: dir, Load: load, Keep: isResident(loader), Timeout: timeout}
	prove(s, follower, false)
	return follower, nil
}

// isResident reports whether a sampler may read a version's directory again, because its weights lie in
// servers that may restart.
func isResident(loader weights.Loader) bool {
	_, is := loader.(weights.Resident)
	return is
}

// addressesOf returns the address of a server that a client on this machine can use and, if the server
// listens at all of the machine's addresses, that for other machines.
func addressesOf(l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return "http://" + l.Addr().String() + "/v1"
	}
	own := net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
	return "http://" + own + "/v1, from other machines at http://" + web.Reachable(at) + "/v1"
}

// answer serves until ctx is cancelled. Requests in flight then get a short time to end.
func (s *stage) answer(ctx context.Context, api *openai.Server, handler http.Handler) error {
	e := &s.Explorer
	listener, err := web.Listen(ctx, net.JoinHostPort(e.ListenAddress, strconv.Itoa(e.ProxyPort)), api.Token)
	if err != nil {
		return fmt.Errorf("explorer.listen_address, explorer.proxy_port: %w", err)
	}
	s.say("serves " + api.Name + " at " + addressesOf(listener))
	server := &web.Server{Handler: handler, Read: time.Minute, Write: api.Timeout + 2*time.Minute, Grace: 5 * time.Second}
	if err := server.Serve(ctx, listener); err != nil {
		return err
	}
	return context.Cause(ctx)
}
