// Package host is what a stage offers its rollouts: models to ask, reward models, a gateway, directories and the
// programs of plug-ins.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/serve/gateway"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Host is what a stage offers its rollouts. It implements explorer.Host.
type Host struct {
	Sampler trinity.Sampler // of the policy

	stage *settle.Stage
	say   func(string)
	scrub func(io.Writer) io.Writer // keeps secrets out

	variables    variables                       // of the process, as they were before the stage
	rewardModels map[string]*trinity.RewardModel // by the name that plug-ins give
	askers       map[string]asker                // by name
	opened       []func() error                  // what closes them
	answered     replyCache                      // answers of the askers
	resources    resources                       // of plug-ins
}

// New returns the host of a stage, which opens nothing yet.
func New(s *settle.Stage, say func(string), scrub func(io.Writer) io.Writer) *Host {
	return &Host{
		stage: s, say: say, scrub: scrub, variables: variables{}, rewardModels: map[string]*trinity.RewardModel{}, askers: map[string]asker{},
	}
}

// Load sets the run's variables, and opens reward models and the models that workflows ask.
func (h *Host) Load(ctx context.Context) error {
	if err := h.variables.set(h.stage.Explorer.EnvVars); err != nil {
		return err
	}
	if err := h.openRewardModels(ctx); err != nil {
		return err
	}
	return h.openAsked(ctx)
}

// Close closes all that the host has opened.
func (h *Host) Close() error {
	var errs []error
	for _, end := range append(h.opened, h.answered.close, h.resources.close, h.variables.restore) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// Model implements explorer.Host.
func (h *Host) Model(task *trinity.Task, name string) (*trinity.Model, error) {
	m, params := &h.stage.Model, task.Sampling
	if name == "" {
		return h.Learner(params), nil
	}
	if names := h.models(); !slices.Contains(names, name) {
		return nil, fmt.Errorf("there is no model %q beside the policy (%s): model.lora_configs names them",
			name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	params.Adapter, params.Untrained = m.Adapter(name), true
	return h.policy(params), nil
}

// Learner returns the model of a rollout, from whose tokens the run learns.
func (h *Host) Learner(params trinity.SamplingParams) *trinity.Model {
	m := h.policy(params)
	m.MaxTokens = h.stage.Explorer.MaxRolloutTokens
	return m
}

// policy returns the model that the run trains.
func (h *Host) policy(params trinity.SamplingParams) *trinity.Model {
	m := &h.stage.Model
	return &trinity.Model{
		Sampler: h.Sampler, Renderer: h.stage.Text, Params: params,
		MaxPromptLen: config.Value(0, m.MaxPromptTokens), MaxModelLen: config.Value(0, m.MaxModelLen), TruncatePrompt: m.EnablePromptTruncation,
		FailOnRewrite: h.stage.Explorer.RolloutModel.OnRewrite == "fail",
	}
}

// models returns the names of the models that the sampler has beside the policy. Without adapters
// there are none.
func (h *Host) models() (names []string) {
	for _, l := range h.stage.Model.LoraConfigs {
		if l.Name != "" {
			names = append(names, l.Name)
		}
	}
	if len(h.stage.Model.LoraConfigs) > 0 {
		names = append(names, trinity.BaseAdapter)
	}
	return names
}

// RewardModel implements explorer.Host.
func (h *Host) RewardModel(name string) (*trinity.RewardModel, error) {
	if m := h.rewardModels[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("reward model %s is not open: the plug-in must list it in its Requirements", name)
}

// workDir is the directory, in the run's, for the files of plug-ins.
const workDir = "work"

// Dir implements explorer.Host. Each of several explorers has a directory of its own.
func (h *Host) Dir(name string) (string, error) {
	if name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
		return "", fmt.Errorf("directory %q: want a single path element", name)
	}
	dir := filepath.Join(h.stage.CheckpointJobDir, workDir)
	if record.OneOfSeveral(h.stage.Settled) {
		dir = filepath.Join(dir, h.stage.Explorer.Name)
	}
	dir = filepath.Join(dir, name)
	return dir, os.MkdirAll(dir, 0o755)
}

// Say implements explorer.Host.
func (h *Host) Say(line string) { h.say(line) }

// resources are what plug-ins have opened in a stage, by their keys.
type resources struct {
	mu    sync.Mutex
	log   io.WriteCloser
	byKey map[string]io.Closer
	all   []io.Closer // in the order in which they were opened
	ended bool
}

// Open implements explorer.Host.
func (h *Host) Open(key string, open func(log io.Writer) (io.Closer, error)) (io.Closer, error) {
	r := &h.resources
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byKey[key]; known != nil {
		return known, nil
	}
	if r.ended {
		return nil, errors.New("the stage has ended")
	}
	if r.log == nil {
		log, err := record.OpenPluginLog(h.stage.Log.SaveDir)
		if err != nil {
			return nil, err
		}
		r.log, r.byKey, r.all = log, map[string]io.Closer{}, []io.Closer{log}
	}
	opened, err := open(h.scrub(r.log))
	if err != nil {
		return nil, err
	}
	r.byKey[key], r.all = opened, append(r.all, opened)
	return opened, nil
}

// close closes the resources, the last one first.
func (r *resources) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(r.all) {
		errs = append(errs, c.Close())
	}
	r.ended = true
	return errors.Join(errs...)
}

// serving is the gateway of a stage while it serves.
type serving struct {
	*gateway.Gateway
	stop  context.CancelFunc
	ended chan error
}

// Close implements io.Closer.
func (g *serving) Close() error {
	g.stop()
	return <-g.ended
}

// Serve implements explorer.Host. The first rollout that needs it starts the gateway, which only this
// machine can reach.
func (h *Host) Serve(ctx context.Context, m *trinity.Model, o trinity.EndpointOptions) (trinity.Endpoint, error) {
	opened, err := h.Open("gateway", func(io.Writer) (io.Closer, error) { return h.startGateway() })
	if err != nil {
		return nil, fmt.Errorf("the gateway: %w", err)
	}
	return opened.(*serving).Open(ctx, m, o), nil
}

func (h *Host) startGateway() (*serving, error) {
	ctx, stop := context.WithCancel(context.Background()) // the stage closes the gateway after its last rollout
	listener, err := web.Listen(ctx, "127.0.0.1:0", "")
	if err != nil {
		stop()
		return nil, err
	}
	g := gateway.New("http://"+listener.Addr().String(), checkpoint.ModelName(h.stage.Model.ModelPath), h.stage.Text,
		h.stage.Vocabulary(), h.say)
	server := &web.Server{Handler: g.Handler(), Read: time.Minute}
	out := &serving{g, stop, make(chan error, 1)}
	go func() { out.ended <- server.Serve(ctx, listener) }()
	return out, nil
}

// variables are environment variables of this process as they were before; nil was none.
type variables map[string]*string

// set sets variables of explorer.env_vars in this process: plug-ins in Go read them there, and
// programs inherit them.
func (v variables) set(values map[string]string) error {
	for name, value := range values {
		v[name] = nil
		if before, ok := os.LookupEnv(name); ok {
			v[name] = &before
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (v variables) restore() error {
	var errs []error
	for name, before := range v {
		if before == nil {
			errs = append(errs, os.Unsetenv(name))
		} else {
			errs = append(errs, os.Setenv(name, *before))
		}
	}
	return errors.Join(errs...)
}
