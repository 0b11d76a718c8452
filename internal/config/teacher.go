package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/tags"
)

const auxiliaryModelsKey = "explorer.auxiliary_models"

// Teacher is a frozen model of explorer.auxiliary_models. The trainer asks it for
// log-probabilities, or the engine compares its distributions with the policy's.
type Teacher struct {
	Name string // by which tasksets ask for it; the first is also asked for by those that name none
	Path string // model directory, GGUF file or hub name
	Key  string // dotted path of the auxiliary model
	// DType of the weights, as engines call it: "f32", "bf16", or "" for as they are.
	DType string
	// Served is the model behind servers that score what the student wrote; nil for one that the engine
	// opens which trains.
	Served *InferenceModel
}

// words describes the teacher for a plan.
func (t Teacher) words() string {
	text := t.Path
	if t.Served != nil {
		text = t.Served.EngineType + " at " + strings.Join(t.Served.BaseUrls, ", ")
	}
	if t.Name != "" {
		text = t.Name + ", " + text
	}
	if t.DType != "" {
		text += ", " + t.DType
	}
	return text
}

var dtypes = map[string]string{"bfloat16": "bf16", "float32": "f32", "float": "f32"}

// teachersOf lists the teachers of a run whose algorithm distils. Auxiliary models keep the number
// type of their weights unless the file sets dtype.
func teachersOf(r report, engines *Engines, explorer *Explorer, method *Method, w Work) (teachers []Teacher) {
	for i := range explorer.AuxiliaryModels {
		m, key := &explorer.AuxiliaryModels[i], tags.Join(auxiliaryModelsKey, digits(i))
		if !r.IsSet(key + ".dtype") {
			m.Dtype = "auto"
		}
		if w.Trains && method.Distils && !m.isExternal() {
			t := Teacher{Name: m.Name, Path: m.ModelPath, Key: key, DType: dtypes[m.Dtype]}
			reason, says := openedEngine{"sampler", m.EngineType}.reads(&Settled{}, baseURLsKey)
			if says && reason == "" && m.EngineType != engines.Train {
				t.Served, t.DType = m, ""
			}
			teachers = append(teachers, t)
		}
	}
	return teachers
}

// checkTeachers checks that an algorithm that distils has usable teachers.
func checkTeachers(r report, algorithm *Algorithm, data *Data, method *Method, teachers []Teacher, w Work) {
	needed := method.Distils
	switch {
	case !needed:
		checkUntaught(r, algorithm, data)
		return
	case !w.Trains:
		return
	case len(teachers) == 0:
		r.fail(auxiliaryModelsKey, pupil(algorithm, method)+" needs a teacher",
			"list a model with the tokenizer of model.model_path: - model_path: …")
		return
	}
	names := map[string]string{}
	for _, t := range teachers {
		if t.Served != nil {
			checkAddresses(tags.Join(t.Key, lastKey(baseURLsKey)), t.Served.BaseUrls, r.fail)
		}
		other, twice := names[t.Name]
		switch {
		case t.Path == "" && t.Served == nil:
			r.fail(t.Key+".model_path", "the teacher has no model_path", "set it to a model directory, a GGUF file or a hub name")
		case t.Name == "" && len(teachers) > 1:
			r.fail(t.Key, "the teacher has no name, and there are several", "set name, for `teacher` of a taskset")
		case twice:
			r.fail(t.Key+".name", fmt.Sprintf("%q is also the name of %s", t.Name, other), "give each teacher a name of its own")
		}
		names[t.Name] = t.Key
	}
	checkTaught(r, data, teachers, names)
}

// pupil names the part of the algorithm that learns from a teacher, for an error.
func pupil(algorithm *Algorithm, method *Method) string {
	parts := method.Parts
	switch {
	case parts != nil && (policyNeeds(parts).Teacher || method.Compares):
		return "policy_loss_fn " + parts.PolicyLoss
	case algorithm.AdvantageFn != "":
		return "advantage_fn " + algorithm.AdvantageFn
	}
	return algorithm.AlgorithmType
}

// checkUntaught refuses a taskset's teacher if the algorithm does not distil.
func checkUntaught(r report, algorithm *Algorithm, data *Data) {
	for _, t := range data.Tasksets {
		if t.Teacher != "" && !t.Eval {
			r.fail(t.Key+".teacher", fmt.Sprintf("%s does not learn from a teacher", algorithm.AlgorithmType), "remove it")
		}
	}
}

// checkTaught checks that every taskset names an existing teacher.
func checkTaught(r report, data *Data, teachers []Teacher, names map[string]string) {
	for _, t := range data.Tasksets {
		if name := teacherOf(teachers, t); !t.Eval && names[name] == "" {
			r.fail(t.Key+".teacher", fmt.Sprintf("%q is not a name in %s", name, auxiliaryModelsKey), teacherHint(r, teachers))
		}
	}
}

// teacherOf returns the name of a taskset's teacher: the first one if the taskset names none.
func teacherOf(teachers []Teacher, t TasksetEntry) string {
	if t.Teacher != "" {
		return t.Teacher
	}
	return teachers[0].Name
}

// teaches reports whether a training taskset has this teacher.
func (s *Settled) teaches(name string) bool {
	return slices.ContainsFunc(s.Data.Tasksets, func(t TasksetEntry) bool { return !t.Eval && teacherOf(s.Teachers, t) == name })
}

func teacherHint(r report, teachers []Teacher) string {
	var names []string
	for _, t := range teachers {
		names = append(names, t.Name)
	}
	if len(names) == 1 && names[0] == "" {
		return "the only teacher has no name: leave the key out"
	}
	return "there is " + strings.Join(names, ", ")
}

// unsupportedTeachers refuses teachers that this version cannot open.
func (s *Settled) unsupportedTeachers(refuse func(key, what, hint string)) {
	for i := range s.Explorer.AuxiliaryModels {
		m, key := &s.Explorer.AuxiliaryModels[i], tags.Join(auxiliaryModelsKey, digits(i))
		at := slices.IndexFunc(s.Teachers, func(t Teacher) bool { return t.Key == key })
		if at < 0 {
			continue
		}
		t := s.Teachers[at]
		if s.Explores && !s.teaches(t.Name) {
			refuse(t.Key, "a teacher that no taskset names, from which workflows would choose", "name it in `teacher` of a taskset, or remove it")
		}
		switch {
		case t.Served != nil:
			s.unsupportedServed(t, refuse)
			continue
		case !named(m.EngineType, "auto", s.Engines.Train):
			refuse(t.Key+".engine_type", "this engine for a teacher", engineHint("trainer"))
		case named(m.Dtype, "float16", "half"):
			refuse(t.Key+".dtype", "weights in float16", "use bfloat16 or float32, or leave it out")
		}
		for _, k := range []struct {
			key string
			set bool
		}{
			{"quantization", m.Quantization != ""}, {"rope_scaling", m.RopeScaling != nil}, {"rope_theta", m.RopeTheta != nil},
			{"external_model_config", m.ExternalModelConfig != nil}, {"enable_multimodal", m.EnableMultimodal},
		} {
			if k.set {
				refuse(t.Key+"."+k.key, "this key of a teacher", "remove it")
			}
		}
	}
}

// unsupportedServed refuses what a teacher behind servers cannot do: it gives the log-probabilities of
// given tokens at temperature 1.
func (s *Settled) unsupportedServed(t Teacher, refuse func(key, what, hint string)) {
	if len(t.Served.BaseUrls) == 0 {
		refuse(tags.Join(t.Key, lastKey(baseURLsKey)), "starting servers for a teacher", "start them, and set base_urls to their addresses")
	}
	if s.Method.Compares {
		refuse(t.Key+".engine_type", "a teacher behind servers for policy_loss_fn "+s.Algorithm.PolicyLossFn+
			", which compares whole distributions", "set model_path and leave engine_type out, or choose a loss that reads log-probabilities")
	}
	for _, set := range s.Data.Tasksets {
		if temperature := *set.RolloutArgs.Temperature; !set.Eval && teacherOf(s.Teachers, set) == t.Name && temperature != 1 {
			refuse(s.Inherited(set.Key+".rollout_args", "temperature"), fmt.Sprintf("%v for a teacher behind servers, which score at temperature 1",
				temperature), "set it to 1, or open the teacher here: set model_path and leave engine_type out")
		}
	}
}

// Inherited returns the key from which an owner of sampling keys has one: its own, the rollout model's
// if the file does not set that, or model's.
func (s *Settled) Inherited(owner, name string) string {
	for _, of := range []string{owner, "explorer.rollout_model"} {
		if key := tags.Join(of, name); s.IsSet(key) {
			return key
		}
	}
	return tags.Join("model", name)
}

// unusedByTeachers returns why a key of an auxiliary model has no meaning for a teacher, "" if it
// has one.
func (s *Settled) unusedByTeachers(key string) string {
	switch {
	case !s.Method.Distils:
		return "only rollouts ask it"
	case !s.Trains:
		return "only the trainer asks the teachers"
	}
	for _, t := range s.Teachers {
		if t.Served == nil || !below(key, t.Key) {
			continue
		}
		if args := tags.Join(t.Key, "engine_args"); below(key, args) || named(lastKey(key), "name", "engine_type", "api_key") ||
			below(key, tags.Join(t.Key, lastKey(baseURLsKey))) {
			return ""
		}
		return "the teacher's servers decide it"
	}
	if named(lastKey(key), "name", "model_path", "engine_type", "dtype") {
		return ""
	}
	return "a teacher reads what the student wrote, at the student's temperature, with the engine that trains"
}

var unusedOfAuxiliaryModels = []unusedKey{{auxiliaryModelsKey + ".*.*", func(s *Settled, key string) string {
	if reason, asks := s.unusedByAsked(key); asks {
		return reason
	}
	return s.unusedByTeachers(key)
}}}

// AskedModel is a model of explorer.auxiliary_models that workflows and reward functions ask in words.
type AskedModel struct {
	InferenceModel
	Key      string // dotted path
	External bool   // it is behind an OpenAI-compatible server, which is ExternalModelConfig
	Teaches  bool   // it is a teacher, which rollouts ask only if a plug-in names it
}

// isExternal reports whether a model is behind a server.
func (m *InferenceModel) isExternal() bool {
	return m.EngineType == external || m.ExternalModelConfig != nil && m.ExternalModelConfig.Enable
}

// askedOf lists the models that rollouts may ask. If the algorithm distils, all models of this machine are
// teachers, too.
func askedOf(explorer *Explorer, method *Method, w Work) (asked []AskedModel) {
	for i := range explorer.AuxiliaryModels {
		m := &explorer.AuxiliaryModels[i]
		teaches := method.Distils && !m.isExternal()
		if !w.Samples {
			continue
		}
		if !teaches {
			setDefault(&m.Name, digits(i))
		}
		if m.isExternal() && m.ExternalModelConfig == nil {
			m.ExternalModelConfig = newDefault[ExternalModel]()
		}
		a := AskedModel{*m, tags.Join(auxiliaryModelsKey, digits(i)), m.isExternal(), teaches}
		setDefault(&a.Name, digits(i))
		asked = append(asked, a)
	}
	return asked
}

// onlyAsked lists the models that rollouts ask, without teachers.
func onlyAsked(all []AskedModel) []AskedModel {
	return slices.DeleteFunc(slices.Clone(all), func(a AskedModel) bool { return a.Teaches })
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

// checkAsked checks the models that rollouts ask.
func checkAsked(r report, asked []AskedModel) {
	names := map[string]string{trinity.PolicyAsker: "the policy"}
	for _, a := range asked {
		if a.Teaches {
			continue // checkTeachers has checked it
		}
		if other, twice := names[a.Name]; twice {
			r.fail(a.Key+".name", fmt.Sprintf("%q is also the name of %s", a.Name, other), "choose another name")
		}
		names[a.Name] = a.Key
		switch {
		case a.External:
			a.ExternalModelConfig.checkServer(r, a.Key+".external_model_config")
		case a.ModelPath == "":
			r.fail(a.Key+".model_path", "the model has no model_path", "set it to a model directory, a GGUF file or a hub name")
		}
	}
}

// unsupported refuses a model that this version cannot open.
func (a AskedModel) unsupported(refuse func(key, what, hint string), sampler string, isSet func(key string) bool) {
	if a.External || a.Teaches {
		return
	}
	if !named(a.EngineType, "auto", sampler) {
		refuse(a.Key+".engine_type", "this engine for a model that rollouts ask", engineHint("sampler")+", or "+external)
	}
	for _, k := range []struct {
		key string
		set bool
	}{
		{"dtype", a.Dtype != "auto"}, {"enable_multimodal", a.EnableMultimodal},
		{"rope_scaling", isSet(a.Key + ".rope_scaling")}, {"rope_theta", isSet(a.Key + ".rope_theta")},
	} {
		if k.set {
			refuse(a.Key+"."+k.key, "this key of a model that rollouts ask", "remove it")
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
		case !below(key, a.Key+".*"), a.Teaches:
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
