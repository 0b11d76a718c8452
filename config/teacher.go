package config

import (
	"fmt"
	"slices"
	"strings"
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

// teachers lists the teachers of a run whose algorithm distils. Auxiliary models keep the number
// type of their weights unless the file sets dtype.
func (r *resolution) teachers() {
	for i := range r.Explorer.AuxiliaryModels {
		m, key := &r.Explorer.AuxiliaryModels[i], join(auxiliaryModelsKey, digits(i))
		if !r.IsSet(key + ".dtype") {
			m.Dtype = "auto"
		}
		if r.Trains && r.Method.Distils && !m.isExternal() {
			t := Teacher{Name: m.Name, Path: m.ModelPath, Key: key, DType: dtypes[m.Dtype]}
			if reason, says := (engine{"sampler", m.EngineType}).reads(r.Settled, baseURLsKey); says && reason == "" && m.EngineType != r.Engines.Train {
				t.Served, t.DType = m, ""
			}
			r.Teachers = append(r.Teachers, t)
		}
	}
}

// teachers checks that an algorithm that distils has usable teachers.
func (r *rules) teachers() {
	needed := r.Method.Distils
	switch {
	case !needed:
		r.untaught()
		return
	case !r.Trains:
		return
	case len(r.Teachers) == 0:
		r.fail(auxiliaryModelsKey, r.pupil()+" needs a teacher", "list a model with the tokenizer of model.model_path: - model_path: …")
		return
	}
	names := map[string]string{}
	for _, t := range r.Teachers {
		if t.Served != nil {
			checkAddresses(join(t.Key, lastKey(baseURLsKey)), t.Served.BaseUrls, r.fail)
		}
		other, twice := names[t.Name]
		switch {
		case t.Path == "" && t.Served == nil:
			r.fail(t.Key+".model_path", "the teacher has no model_path", "set it to a model directory, a GGUF file or a hub name")
		case t.Name == "" && len(r.Teachers) > 1:
			r.fail(t.Key, "the teacher has no name, and there are several", "set name, for `teacher` of a taskset")
		case twice:
			r.fail(t.Key+".name", fmt.Sprintf("%q is also the name of %s", t.Name, other), "give each teacher a name of its own")
		}
		names[t.Name] = t.Key
	}
	r.taught(names)
}

// pupil names the part of the algorithm that learns from a teacher, for an error.
func (r *rules) pupil() string {
	parts := r.Method.Parts
	switch {
	case parts != nil && (policyNeeds(parts).Teacher || r.Method.Compares):
		return "policy_loss_fn " + parts.PolicyLoss
	case r.Algorithm.AdvantageFn != "":
		return "advantage_fn " + r.Algorithm.AdvantageFn
	}
	return r.Algorithm.AlgorithmType
}

// untaught refuses a taskset's teacher if the algorithm does not distil.
func (r *rules) untaught() {
	for _, t := range r.Data.Tasksets {
		if t.Teacher != "" && !t.Eval {
			r.fail(t.Key+".teacher", fmt.Sprintf("%s does not learn from a teacher", r.Algorithm.AlgorithmType), "remove it")
		}
	}
}

// taught checks that every taskset names an existing teacher.
func (r *rules) taught(names map[string]string) {
	for _, t := range r.Data.Tasksets {
		if name := r.teacherOf(t); !t.Eval && names[name] == "" {
			r.fail(t.Key+".teacher", fmt.Sprintf("%q is not a name in %s", name, auxiliaryModelsKey), r.teacherHint())
		}
	}
}

// teacherOf returns the name of a taskset's teacher: the first one if the taskset names none.
func (s *Settled) teacherOf(t TasksetEntry) string {
	if t.Teacher != "" {
		return t.Teacher
	}
	return s.Teachers[0].Name
}

// teaches reports whether a training taskset has this teacher.
func (s *Settled) teaches(name string) bool {
	return slices.ContainsFunc(s.Data.Tasksets, func(t TasksetEntry) bool { return !t.Eval && s.teacherOf(t) == name })
}

func (r *rules) teacherHint() string {
	var names []string
	for _, t := range r.Teachers {
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
		m, key := &s.Explorer.AuxiliaryModels[i], join(auxiliaryModelsKey, digits(i))
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
		refuse(join(t.Key, lastKey(baseURLsKey)), "starting servers for a teacher", "start them, and set base_urls to their addresses")
	}
	if s.Method.Compares {
		refuse(t.Key+".engine_type", "a teacher behind servers for policy_loss_fn "+s.Algorithm.PolicyLossFn+
			", which compares whole distributions", "set model_path and leave engine_type out, or choose a loss that reads log-probabilities")
	}
	for _, set := range s.Data.Tasksets {
		if temperature := *set.RolloutArgs.Temperature; !set.Eval && s.teacherOf(set) == t.Name && temperature != 1 {
			refuse(s.Inherited(set.Key+".rollout_args", "temperature"), fmt.Sprintf("%v for a teacher behind servers, which score at temperature 1",
				temperature), "set it to 1, or open the teacher here: set model_path and leave engine_type out")
		}
	}
}

// Inherited returns the key from which an owner of sampling keys has one: its own, the rollout model's
// if the file does not set that, or model's.
func (s *Settled) Inherited(owner, name string) string {
	for _, of := range []string{owner, "explorer.rollout_model"} {
		if key := join(of, name); s.IsSet(key) {
			return key
		}
	}
	return join("model", name)
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
		if args := join(t.Key, "engine_args"); below(key, args) || named(lastKey(key), "name", "engine_type", "api_key") ||
			below(key, join(t.Key, lastKey(baseURLsKey))) {
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
