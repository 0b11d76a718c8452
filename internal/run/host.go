package run

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/feed"
)

// host implements explorer.Host: it is what a stage offers its rollouts.
type host struct{ *stage }

// Model implements explorer.Host.
func (h host) Model(task *trinity.Task, name string) (*trinity.Model, error) {
	m, params := &h.Settled.Model, task.Sampling
	if name == "" {
		return h.learner(params), nil
	}
	if names := h.models(); !slices.Contains(names, name) {
		return nil, fmt.Errorf("there is no model %q beside the policy (%s): model.lora_configs names them",
			name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	params.Adapter, params.Untrained = m.Adapter(name), true
	return h.policy(params), nil
}

// learner returns the model of a rollout, from whose tokens the run learns.
func (h host) learner(params trinity.SamplingParams) *trinity.Model {
	m := h.policy(params)
	m.MaxTokens = h.Explorer.MaxRolloutTokens
	return m
}

// policy returns the model that the run trains.
func (h host) policy(params trinity.SamplingParams) *trinity.Model {
	m := &h.Settled.Model
	return &trinity.Model{
		Sampler: h.sampler, Renderer: h.text, Params: params,
		MaxPromptLen: config.Value(0, m.MaxPromptTokens), MaxModelLen: config.Value(0, m.MaxModelLen), TruncatePrompt: m.EnablePromptTruncation,
		FailOnRewrite: h.Explorer.RolloutModel.OnRewrite == "fail",
	}
}

// models returns the names of the models that the sampler has beside the policy. Without adapters
// there are none.
func (h host) models() (names []string) {
	for _, l := range h.Settled.Model.LoraConfigs {
		if l.Name != "" {
			names = append(names, l.Name)
		}
	}
	if len(h.Settled.Model.LoraConfigs) > 0 {
		names = append(names, trinity.BaseAdapter)
	}
	return names
}

// RewardModel implements explorer.Host.
func (h host) RewardModel(name string) (*trinity.RewardModel, error) { return h.rewardModels.get(name) }

// workDir is the directory, in the run's, for the files of plug-ins.
const workDir = "work"

// Dir implements explorer.Host. Each of several explorers has a directory of its own.
func (h host) Dir(name string) (string, error) {
	if name == "." || !filepath.IsLocal(name) || filepath.Base(name) != name {
		return "", fmt.Errorf("directory %q: want a single path element", name)
	}
	dir := filepath.Join(h.CheckpointJobDir, workDir)
	if feed.OneOfSeveral(h.Settled.Settled) {
		dir = filepath.Join(dir, h.Explorer.Name)
	}
	dir = filepath.Join(dir, name)
	return dir, os.MkdirAll(dir, 0o755)
}

// Say implements explorer.Host.
func (h host) Say(line string) { h.say(line) }
