package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// Auxiliary is a model of explorer.auxiliary_models that rollouts ask, in words or for log-probabilities.
type Auxiliary struct {
	config.AskedModel
	Local string             // path; "" if it is behind a server or not on this machine
	Text  *renderer.Renderer // nil without a path
}

// checkAsked returns an error unless each model that a plug-in asks is there, and each model that is
// there is asked. It returns those models. It reads no weights and sends nothing.
func checkAsked(s *config.Settled, tasksets []feed.Taskset) (asked []Auxiliary, err error) {
	var wanted []string
	for key, needs := range asking(s, tasksets) {
		for _, spec := range needs.Askers {
			if spec.Name == trinity.PolicyAsker {
				continue
			}
			key := key + spec.Arg
			if spec.Server != nil {
				if err := hasServer(s, serverModel(spec, key), spec.Server.BaseURLEnv); err != nil {
					return nil, err
				}
				continue
			}
			a, known := AskedBy(s, spec.Name)
			if !known {
				return nil, s.At(key, fmt.Sprintf("no model is called %q", spec.Name),
					fmt.Sprintf("list it in explorer.auxiliary_models, or ask %q", trinity.PolicyAsker))
			}
			wanted = append(wanted, a.Name)
		}
	}
	for _, a := range s.Asked {
		isWanted := slices.Contains(wanted, a.Name)
		switch {
		case a.Teaches && !isWanted:
			continue // only the trainer asks it
		case a.Teaches && len(a.BaseUrls) > 0:
			return nil, s.At(a.Key, fmt.Sprintf("a workflow asks the teacher %q, which is behind servers of its own", a.Name),
				"open it here (set model_path and leave engine_type out), or name no auxiliary_models in workflow_args ([] for a class in Python)")
		case a.Teaches && a.Dtype != "auto":
			return nil, s.At(a.Key+".dtype", fmt.Sprintf("a workflow asks the teacher %q with the weights of its file", a.Name), "leave it out")
		case !isWanted:
			return nil, s.At(a.Key, fmt.Sprintf("no workflow, no reward function and no operator asks the model %q", a.Name),
				"remove it, or name it in their arguments")
		}
		if asked = append(asked, Auxiliary{AskedModel: a}); !a.External {
			continue
		}
		if err := hasServer(s, a, "external_model_config.base_url or "+a.ExternalModelConfig.BaseURLEnv); err != nil {
			return nil, err
		}
	}
	return asked, nil
}

// asking returns what the plug-ins need that may ask models, by the key of their arguments with a dot after it: workflows,
// reward functions and operators.
func asking(s *config.Settled, tasksets []feed.Taskset) iter.Seq2[string, trinity.Requirements] {
	return func(yield func(string, trinity.Requirements) bool) {
		for i := range tasksets {
			for key, needs := range tasksets[i].Needs() {
				if !yield(key, needs) {
					return
				}
			}
		}
		for i, o := range s.DataProcessor.ExperiencePipeline.Operators {
			name, args := s.Plugin(registry.Operators.Catalog, o.Name, o.Args)
			op, err := registry.Operators.Build(name, args)
			if err == nil && !yield(fmt.Sprintf("data_processor.experience_pipeline.operators.%d.args.", i), trinity.RequirementsOf(op)) {
				return
			}
		}
	}
}

// hasServer returns an error unless the address of a model behind a server is known.
func hasServer(s *config.Settled, a config.AskedModel, from string) error {
	server, hint := Client(a), "set "+from
	if server.BaseURL == "" {
		return s.At(a.Key, fmt.Sprintf("the model %q has no server", a.Name), hint)
	}
	if _, err := server.Address("chat/completions"); err != nil {
		return s.At(a.Key, fmt.Sprintf("the model %q: %v", a.Name, err), hint)
	}
	return nil
}

// serverModel returns a model that a plug-in asks at a server which its arguments name.
func serverModel(spec trinity.AskerSpec, key string) config.AskedModel {
	return config.AskedModel{Key: key, External: true, InferenceModel: config.InferenceModel{
		Name: spec.Name, ExternalModelConfig: &config.ExternalModel{
			ModelName: spec.Server.Model, BaseURLEnv: spec.Server.BaseURLEnv, APIKeyEnv: spec.Server.KeyEnv, Timeout: 120, MaxRetries: 5,
		},
	}}
}

// AskedModels lists the models that rollouts ask: those at servers which the arguments of plug-ins name, and those of
// explorer.auxiliary_models.
func (s *Stage) AskedModels() (all []Auxiliary) {
	for i := range s.Tasksets {
		for _, needs := range s.Tasksets[i].Needs() {
			for _, spec := range needs.Askers {
				if spec.Server != nil && !slices.ContainsFunc(all, func(a Auxiliary) bool { return a.Name == spec.Name }) {
					all = append(all, Auxiliary{AskedModel: serverModel(spec, "")})
				}
			}
		}
	}
	return append(all, s.asked...)
}

// AskedBy returns the model with a name or, if none has it, with that place in explorer.auxiliary_models.
func AskedBy(s *config.Settled, name string) (found config.AskedModel, ok bool) {
	for _, a := range s.Asked {
		switch {
		case a.Name == name:
			return a, true
		case strings.HasSuffix(a.Key, "."+name):
			found, ok = a, true
		}
	}
	return found, ok
}

// Client returns the client of a model behind a server. A server without a key of its own never
// gets that of another one.
func Client(a config.AskedModel) *openai.Client {
	e := a.ExternalModelConfig
	base := cmp.Or(e.BaseURL, os.Getenv(e.BaseURLEnv))
	key := cmp.Or(os.Getenv(e.APIKeyEnv), openai.NoKey)
	return &openai.Client{BaseURL: base, Key: key, Timeout: wait.Seconds(e.Timeout), Retries: e.MaxRetries}
}

// locateAsked finds the models of this machine that rollouts ask.
func locateAsked(s *config.Settled, asked []Auxiliary, find finder) (err error) {
	for i := range asked {
		a := &asked[i]
		key := a.Key + ".model_path"
		if a.External {
			continue
		}
		if a.Local, err = find(a.ModelPath, key); err != nil {
			return s.At(key, err.Error(), "")
		}
		if a.Local == "" {
			continue
		}
		if a.Text, err = a.openText(); err != nil {
			return s.At(key, err.Error(), "")
		}
		if len(a.BaseUrls) == 0 && !model.HasWeights(a.Local) {
			return s.At(key, a.Local+" has no weights", "name a model that has been trained")
		}
	}
	return nil
}

// openText opens the tokenizer and the chat template of the model.
func (a *Auxiliary) openText() (*renderer.Renderer, error) {
	o := renderer.Options{Template: a.ChatTemplate}
	if a.EnableThinking != nil {
		o.Kwargs = map[string]any{"enable_thinking": *a.EnableThinking}
	}
	text, err := renderer.Open(a.Local, o)
	switch {
	case err != nil:
		return nil, err
	case text == nil:
		return nil, fmt.Errorf("model %s has no tokenizer (tokenizer.json)", a.Local)
	case !text.HasTemplate() && !a.Teaches: // a teacher may have log-probabilities alone
		return nil, fmt.Errorf("model %s has no chat template, so nobody can ask it: set chat_template", a.Local)
	}
	return text, nil
}

// Spec returns how the engine opens the model.
func (a *Auxiliary) Spec(sequences int) engine.SamplerSpec {
	spec := engine.SamplerSpec{
		ModelPath: a.Local, Quantization: a.Quantization, MaxSequences: sequences, MaxModelLen: config.Value(0, a.MaxModelLen),
		Servers: a.BaseUrls, Key: a.APIKey,
	}
	if a.Text != nil {
		spec.Text = a.Text.Decode
	}
	return spec
}

// askedMemory plans the memory of the models on this machine that rollouts ask.
func (s *Stage) askedMemory() (plans []config.MemoryPlan, err error) {
	for _, a := range s.asked {
		if a.Local == "" {
			continue
		}
		parts, err := s.Openers.Sampler.PlanMemory(a.Spec(s.Batch.Sequences))
		if err != nil {
			return nil, s.At(a.Key, err.Error(), "")
		}
		plans = append(plans, place.Planned(parts, "asked model", a.Name+", "+a.ModelPath)...)
	}
	return plans, nil
}

// rewardModel is a reward model that the plug-ins of a taskset require.
type rewardModel struct {
	trinity.RewardModelSpec
	Key   string // of the argument that names it
	Local string // path; "" if it is not on this machine
}

// rewardText opens the tokenizer and chat template of a reward model.
func rewardText(path string) (*renderer.Renderer, error) {
	text, err := renderer.Open(path, renderer.Options{})
	if err == nil && text == nil {
		err = fmt.Errorf("model %s has no tokenizer (tokenizer.json)", path)
	}
	return text, err
}

// checkRewardModel returns an error if a model on this machine cannot be the required reward model.
// It reads no weights.
func (s *Stage) checkRewardModel(r *rewardModel) error {
	if s.Openers.TakeTurns() {
		return s.At(r.Key, "a reward model computes on the trainer's GPUs, which the servers have while rollouts are scored (mode colocate)",
			"use mode both")
	}
	m, err := model.Open(r.Local)
	if err != nil {
		return s.At(r.Key, "reward model: "+err.Error(), "")
	}
	_, err = rewardText(r.Local)
	if err = errors.Join(err, m.Close()); err != nil {
		return s.At(r.Key, "reward model: "+err.Error(), "")
	}
	if n := m.Config.NumLabels; m.Config.Head != model.CausalLM && n < r.Labels {
		return s.At(r.Key, fmt.Sprintf("reward model %s has %d labels, and label %d is asked for", r.Path, n, r.Labels-1),
			fmt.Sprintf("want 0 to %d", n-1))
	}
	return nil
}

// scorerSpec returns how the engine opens a reward model.
func (s *Stage) scorerSpec(path string) engine.TrainerSpec {
	return engine.TrainerSpec{
		ModelPath: path, Head: engine.ScoreHead, MicroTokens: *s.Trainer.MaxTokenLenPerGPU, Place: s.Openers.Programs.Train,
	}
}

// rewardMemory plans the memory of the reward models that are on this machine.
func (s *Stage) rewardMemory() (plans []config.MemoryPlan, err error) {
	counted := map[string]bool{}
	for _, r := range s.Rewards {
		if r.Local == "" || counted[r.Path] {
			continue
		}
		counted[r.Path] = true
		opener, err := s.Openers.Frozen(s.Settled)
		if err != nil {
			return nil, err
		}
		parts, err := opener.PlanMemory(s.scorerSpec(r.Local))
		if err != nil {
			return nil, s.At(r.Key, "reward model: "+err.Error(), "")
		}
		plans = append(plans, place.Planned(parts, "reward model", r.Path)...)
	}
	return plans, nil
}

// OpenScorer opens the reward model at a path.
func (s *Stage) OpenScorer(ctx context.Context, path string) (*trinity.RewardModel, error) {
	text, err := rewardText(path)
	if err != nil {
		return nil, err
	}
	opener, err := s.Openers.Frozen(s.Settled)
	if err != nil {
		return nil, err
	}
	scorer, err := opener.OpenScorer(ctx, s.scorerSpec(path))
	if err != nil {
		return nil, err
	}
	return &trinity.RewardModel{Scorer: scorer, Renderer: text}, nil
}
