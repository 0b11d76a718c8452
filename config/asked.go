package config

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// external is the engine_type of a model behind a server.
const external = "external"

// AskedModel is a model of explorer.auxiliary_models that workflows and reward functions ask in words.
type AskedModel struct {
	*InferenceModel
	Key      string // dotted path
	External bool   // it is behind an OpenAI-compatible server, which is ExternalModelConfig
}

// isExternal reports whether a model is behind a server.
func (m *InferenceModel) isExternal() bool {
	return m.EngineType == external || m.ExternalModelConfig != nil && m.ExternalModelConfig.Enable
}

// asked lists the models that rollouts ask. If the algorithm distils, all models of this machine are
// teachers.
func (r *resolution) asked() {
	for i := range r.Explorer.AuxiliaryModels {
		m := &r.Explorer.AuxiliaryModels[i]
		if !r.Samples || r.Method.Distils && !m.isExternal() {
			continue
		}
		setDefault(&m.Name, digits(i))
		a := AskedModel{InferenceModel: m, Key: join(auxiliaryModelsKey, digits(i)), External: m.isExternal()}
		if a.External && m.ExternalModelConfig == nil {
			m.ExternalModelConfig = newDefault[ExternalModel]()
		}
		r.Asked = append(r.Asked, a)
	}
}

// words describes the model for a plan.
func (a AskedModel) words() string {
	if !a.External {
		return fmt.Sprintf("%s, %s", a.Name, a.ModelPath)
	}
	e := a.ExternalModelConfig
	if e.BaseURL != "" {
		return fmt.Sprintf("%s, %s at %s", a.Name, e.ModelName, e.BaseURL)
	}
	return fmt.Sprintf("%s, %s at the address in %s", a.Name, e.ModelName, e.BaseURLEnv)
}

// asked checks the models that rollouts ask.
func (r *rules) asked() {
	names := map[string]string{trinity.PolicyAsker: "the policy"}
	for _, a := range r.Asked {
		if other, twice := names[a.Name]; twice {
			r.fail(a.Key+".name", fmt.Sprintf("%q is also the name of %s", a.Name, other), "choose another name")
		}
		names[a.Name] = a.Key
		switch {
		case a.External && a.ExternalModelConfig.ModelName == "":
			r.fail(a.Key+".external_model_config.model_name", "the model has no name at its server", "set it, such as gpt-4o-mini")
		case !a.External && a.ModelPath == "":
			r.fail(a.Key+".model_path", "the model has no model_path", "set it to a model directory, a GGUF file or a hub name")
		}
	}
}

// unsupportedAsked refuses asked models that this version cannot open.
func (s *Settled) unsupportedAsked(refuse func(key, what, hint string)) {
	for _, a := range s.Asked {
		if a.External {
			continue
		}
		if !named(a.EngineType, "auto", s.Engines.Sample) {
			refuse(a.Key+".engine_type", "this engine for a model that rollouts ask", engineHint("sampler")+", or "+external)
		}
		for _, k := range []struct {
			key string
			set bool
		}{
			{"dtype", a.Dtype != "auto"}, {"enable_multimodal", a.EnableMultimodal},
			{"rope_scaling", s.IsSet(a.Key + ".rope_scaling")}, {"rope_theta", s.IsSet(a.Key + ".rope_theta")},
		} {
			if k.set {
				refuse(a.Key+"."+k.key, "this key of a model that rollouts ask", "remove it")
			}
		}
	}
}

// The keys that a model which rollouts ask reads, beside external_model_config.
var (
	readsAlways   = []string{"name", "engine_type", "temperature", "top_p", "max_response_tokens"}
	readsEmbedded = []string{"model_path", "quantization", "top_k", "repetition_penalty", "min_response_tokens", "max_model_len",
		"enable_thinking", "chat_template"}
)

// unusedByAsked returns why a key has no meaning for a model that rollouts ask, "" if it has one. asks
// reports whether the key belongs to such a model.
func (s *Settled) unusedByAsked(key string) (reason string, asks bool) {
	for _, a := range s.Asked {
		switch name := lastKey(key); {
		case !below(key, a.Key+".*"):
			continue
		case slices.Contains(readsAlways, name), !a.External && slices.Contains(readsEmbedded, name):
			return "", true
		case !a.External && named(name, lastKey(baseURLsKey), "api_key") && s.behindServers():
			return "", true
		case below(key, a.Key+".external_model_config"):
			if a.External {
				return "", true
			}
			return "engine_type is not " + external, true
		case a.External:
			return "the server decides it", true
		default:
			return "a model that rollouts ask does not read it", true
		}
	}
	return "", false
}
