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

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// Host is what a stage offers its rollouts. It implements explorer.Host.
type Host struct {
	Sampler trinity.Sampler // of the policy

	stage *settle.Stage
	say   func(string)
	scrub func(io.Writer) io.Writer // keeps secrets out

	variables    variables // of the process, as they were before the stage
	rewardModels rewardModels
	askers       askers
	answered     replyCache // answers of the askers
	resources    resources  // of plug-ins
}

// New returns the host of a stage, which opens nothing yet.
func New(s *settle.Stage, say func(string), scrub func(io.Writer) io.Writer) *Host {
	return &Host{stage: s, say: say, scrub: scrub, variables: variables{}, rewardModels: rewardModels{}, askers: askers{}}
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
	return errors.Join(h.rewardModels.close(), h.askers.close(), h.answered.close(), h.resources.close(), h.variables.restore())
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
	return h.rewardModels.get(name)
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
