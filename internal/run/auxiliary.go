package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/model/renderer"
)

// auxiliaryModel is a model of explorer.auxiliary_models that rollouts ask.
type auxiliaryModel struct {
	config.AskedModel
	path string             // local; "" if it is behind a server or not on this machine
	text *renderer.Renderer // nil without a path
}

// asking is what a stage knows of the models that rollouts ask.
type asking struct{ *Settled }

// check returns an error unless each model that a plug-in asks is there, and each model that is
// there is asked. It reads no weights and sends nothing.
func (s asking) check() error {
	var wanted []string
	for i := range s.tasks {
		for key, needs := range s.tasks[i].Needs() {
			for _, spec := range needs.Askers {
				if spec.Name == trinity.PolicyAsker {
					continue
				}
				key := key + spec.Arg
				if spec.Server != nil {
					if err := s.hasServer(serverModel(spec, key), spec.Server.BaseURLEnv); err != nil {
						return err
					}
					continue
				}
				a, known := s.named(spec.Name)
				if !known {
					return s.At(key, fmt.Sprintf("no model is called %q", spec.Name),
						fmt.Sprintf("list it in explorer.auxiliary_models, or ask %q", trinity.PolicyAsker))
				}
				wanted = append(wanted, a.Name)
			}
		}
	}
	for _, a := range s.Settled.Asked {
		if !slices.Contains(wanted, a.Name) {
			return s.At(a.Key, fmt.Sprintf("no workflow and no reward function asks the model %q", a.Name),
				"remove it, or name it in their arguments")
		}
		if !a.External {
			continue
		}
		if err := s.hasServer(a, "external_model_config.base_url or "+a.ExternalModelConfig.BaseURLEnv); err != nil {
			return err
		}
	}
	return nil
}

// hasServer returns an error unless the address of a model behind a server is known.
func (s asking) hasServer(a config.AskedModel, from string) error {
	client, hint := askedClient(a), "set "+from
	if client.BaseURL == "" {
		return s.At(a.Key, fmt.Sprintf("the model %q has no server", a.Name), hint)
	}
	if _, err := client.Address("chat/completions"); err != nil {
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

// ofServers lists the models that plug-ins ask at servers which their arguments name.
func (s asking) ofServers() (all []auxiliaryModel) {
	for i := range s.tasks {
		for _, needs := range s.tasks[i].Needs() {
			for _, spec := range needs.Askers {
				if spec.Server != nil && !slices.ContainsFunc(all, func(a auxiliaryModel) bool { return a.Name == spec.Name }) {
					all = append(all, auxiliaryModel{AskedModel: serverModel(spec, "")})
				}
			}
		}
	}
	return all
}

// named returns the model with a name or, if none has it, with that place in explorer.auxiliary_models.
func (s *Settled) named(name string) (found config.AskedModel, ok bool) {
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

// askedClient returns the client of a model behind a server. A server without a key of its own never
// gets that of another one.
func askedClient(a config.AskedModel) *openai.Client {
	e := a.ExternalModelConfig
	base := cmp.Or(e.BaseURL, os.Getenv(e.BaseURLEnv))
	key := cmp.Or(os.Getenv(e.APIKeyEnv), openai.NoKey)
	return &openai.Client{BaseURL: base, Key: key, Timeout: wait.Seconds(e.Timeout), Retries: e.MaxRetries}
}

// locate finds the models of this machine that rollouts ask.
func (s asking) locate(find finder) (err error) {
	s.asked = nil
	for _, model := range s.Settled.Asked {
		a := auxiliaryModel{AskedModel: model}
		if key := a.Key + ".model_path"; !a.External {
			if a.path, _, err = find(a.ModelPath, key); err != nil {
				return s.At(key, err.Error(), "")
			}
			if a.path != "" {
				if a.text, err = a.openText(); err != nil {
					return s.At(key, err.Error(), "")
				}
			}
		}
		s.asked = append(s.asked, a)
	}
	return nil
}

// openText opens the tokenizer and the chat template of the model.
func (a *auxiliaryModel) openText() (*renderer.Renderer, error) {
	o := renderer.Options{Template: a.ChatTemplate}
	if a.EnableThinking != nil {
		o.Kwargs = map[string]any{"enable_thinking": *a.EnableThinking}
	}
	text, err := renderer.Open(a.path, o)
	switch {
	case err != nil:
		return nil, err
	case text == nil:
		return nil, fmt.Errorf("model %s has no tokenizer (tokenizer.json)", a.path)
	case !text.HasTemplate():
		return nil, fmt.Errorf("model %s has no chat template, so nobody can ask it: set chat_template", a.path)
	}
	return text, nil
}

// spec returns how the engine opens the model.
func (a *auxiliaryModel) spec(sequences int) engine.SamplerSpec {
	spec := engine.SamplerSpec{
		ModelPath: a.path, Quantization: a.Quantization, MaxSequences: sequences, MaxModelLen: config.Value(0, a.MaxModelLen),
		Servers: a.BaseUrls, Key: a.APIKey,
	}
	if a.text != nil {
		spec.Text = a.text.Decode
	}
	return spec
}

// memory plans the memory of the models on this machine that rollouts ask.
func (s asking) memory() (plans []config.MemoryPlan, err error) {
	for _, a := range s.asked {
		if a.path == "" {
			continue
		}
		parts, err := s.engines.Sampler.PlanMemory(a.spec(s.Batch.Sequences))
		if err != nil {
			return nil, s.At(a.Key, err.Error(), "")
		}
		plans = append(plans, place.Planned(parts, "asked model", a.Name+", "+a.ModelPath)...)
	}
	return plans, nil
}

// askers are the open models that rollouts ask, by name.
type askers map[string]asker

// asker is a model of this process, which each rollout gets a copy of, or one behind a server.
type asker struct {
	model  func() *trinity.Model
	beyond trinity.Asker
	as     any          // the model and how it samples, for the key of its answers
	close  func() error // nil if there is nothing to close
}

// openAsked opens the models that rollouts ask.
func (s *stage) openAsked(ctx context.Context) error {
	models := append(asking{s.Settled}.ofServers(), s.Settled.asked...)
	if len(models) > 0 {
		dir, err := host{s}.Dir("asked")
		if err == nil {
			err = s.answered.open(dir)
		}
		if err != nil {
			return err
		}
	}
	for _, a := range models {
		if a.External {
			client, sampling := askedClient(a.AskedModel), openai.Request{
				Model: a.ExternalModelConfig.ModelName, MaxTokens: a.MaxResponseTokens,
			}
			if a.Temperature != nil {
				sampling.Temperature, sampling.TopP = new(float32(*a.Temperature)), new(float32(*a.TopP))
			}
			s.askers[a.Name] = asker{
				beyond: &openai.Asker{Client: client, Name: a.Name, Sampling: sampling}, as: []any{client.BaseURL, sampling},
			}
			continue
		}
		sampler, err := s.engines.Sampler.OpenSampler(ctx, a.spec(s.Batch.Sequences))
		if err != nil {
			return s.At(a.Key, fmt.Sprintf("opening model %s: %v", a.path, err), "")
		}
		as := []any{a.path, a.Quantization, a.ChatTemplate, a.EnableThinking, a.MaxModelLen, a.Temperature, a.TopP, a.TopK,
			a.RepetitionPenalty, a.MaxResponseTokens, a.MinResponseTokens}
		open := asker{as: as, model: func() *trinity.Model {
			return &trinity.Model{Sampler: sampler, Renderer: a.text, MaxModelLen: config.Value(0, a.MaxModelLen), Params: trinity.SamplingParams{
				Temperature: float32(*a.Temperature), TopP: float32(*a.TopP), TopK: *a.TopK, RepetitionPenalty: float32(*a.RepetitionPenalty),
				MaxTokens: config.Value(0, a.MaxResponseTokens), MinTokens: *a.MinResponseTokens, Untrained: true,
			}}
		}}
		if c, ok := sampler.(io.Closer); ok {
			open.close = c.Close
		}
		s.askers[a.Name] = open
	}
	return nil
}

func (a askers) close() error {
	var errs []error
	for _, one := range a {
		if one.close != nil {
			errs = append(errs, one.close())
		}
	}
	clear(a)
	return errors.Join(errs...)
}

// Asker implements explorer.Host.
func (h host) Asker(task *trinity.Task, name string, own func(*trinity.Model) *trinity.Model) (trinity.Asker, error) {
	if name == trinity.PolicyAsker {
		m, err := h.Model(task, "")
		if err != nil {
			return nil, err
		}
		return own(m).Asker(name), nil
	}
	if a, ok := h.named(name); ok {
		name = a.Name
	}
	switch one, ok := h.askers[name]; {
	case !ok:
		return nil, fmt.Errorf("no model is called %q: the plug-in must list it in its Requirements, and explorer.auxiliary_models "+
			"must have it (open are %s)", name, strings.Join(slices.Sorted(maps.Keys(h.askers)), ", "))
	case one.model != nil:
		m := own(one.model())
		return cachingAsker{m.Asker(name), &h.answered, name, one.as, m.Params.Seed}, nil
	default:
		return cachingAsker{one.beyond, &h.answered, name, one.as, 0}, nil
	}
}
