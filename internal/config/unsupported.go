package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
)

// refusal is a valid value that no part of this version supports.
type refusal struct {
	key  string
	when func(s *Settled) bool
	what string // what the value asks for
	hint string
}

// refusals are the values that this version refuses by name, because a run that ignored them would
// mislead.
var refusals = []refusal{
	{"explorer.db_url", func(s *Settled) bool { return s.Mode == "serve" && s.Explorer.DBURL != "" },
		"a database for the requests of mode serve",
		"leave it out and set explorer.pending_expiry: files of the run then keep the rollouts of real traffic for the trainer"},
	{"buffer.trainer_input.experience_buffer.total_steps",
		func(s *Settled) bool { return s.Buffer.TrainerInput.ExperienceBuffer.TotalSteps != nil },
		"a number of steps for one buffer", "use buffer.total_steps"},

	{"monitor.detailed_stats", func(s *Settled) bool { return s.Monitor.DetailedStats }, "metrics of every single task", ""},
	{"cod.packing_strategy", func(s *Settled) bool { return s.Cod.PackingStrategy != "cod" }, "packs that repeat one task", ""},
	{codArgsKey, func(s *Settled) bool { return s.Cod.CodWorkflowArgs["enable_teacher_logprobs"] == true },
		"enable_teacher_logprobs, which takes teachers by the places of tasksets", "name the teacher of a taskset by its key teacher"},
}

func named(value string, names ...string) bool {
	for _, n := range names {
		if value == n {
			return true
		}
	}
	return false
}

// unsupported reports the values that this version refuses.
func (s *Settled) unsupported() Errors {
	var errs Errors
	refuse := func(key, what, hint string) {
		e := s.source.errorFor(key, "not built into this version: "+what, cmp.Or(hint, "leave it out"))
		e.Unsupported = true
		errs = append(errs, e)
	}
	for _, r := range refusals {
		if r.when(s) {
			refuse(r.key, r.what, r.hint)
		}
	}
	blind := blindEngine(s.opened(), s.Trains)
	for _, t := range s.Data.Tasksets {
		if !t.Eval && !s.Explores {
			continue
		}
		unsupportedFormat(t.Key, &t.Format, blind, refuse)
	}
	unsupportedFormat("buffer.trainer_input.experience_buffer", &s.Buffer.TrainerInput.ExperienceBuffer.Format, blind, refuse)
	if s.Explorer.RolloutModel.EnableMultimodal && blind.key != "" {
		refuse(multimodalKey, blind.what, blind.hint)
	}
	s.refusedByEngines(refuse)
	s.Data.unsupported(blind, refuse)
	s.unsupportedRollout(refuse)
	s.unsupportedTeachers(refuse)
	for _, a := range s.Asked {
		a.unsupported(refuse, s.Engines.Sample, s.source.IsSet)
	}
	for _, key := range s.source.leaves(trainerConfigKey) {
		if !s.source.isEmpty(key) && !s.readsVerl(key) && s.unusedReason(key) == "" {
			e := s.source.errorFor(key, "this version does not read this veRL key", trainerConfigHint(key))
			e.Unsupported = true
			errs = append(errs, e)
		}
	}
	return errs
}

func unsupportedFormat(owner string, f *Format, blind refusedImages, refuse func(key, what, hint string)) {
	for _, k := range []struct {
		key  string
		set  bool
		what string
		hint string
	}{
		{"image_key", f.ImageKey != "" && blind.key != "", blind.what, blind.hint},
		{"video_key", f.VideoKey != "", "video input", "write frames as images do, at image_key"},
		{"chat_template", f.ChatTemplate != "", "a chat template for the data", ""},
		{"enable_thinking", f.EnableThinking != nil, "a thinking flag for the data", ""},
	} {
		if k.set {
			refuse(owner+".format."+k.key, k.what, k.hint)
		}
	}
}

// modelsOwn are the keys of rollout_model that must equal the keys of section model in this
// version.
var modelsOwn = []string{"model_path", "max_model_len", "max_prompt_tokens", "enable_prompt_truncation", "enable_thinking",
	"chat_template", "rope_scaling",
	"rope_theta"}

// unsupportedRollout refuses a rollout engine that would treat text differently from the trainer, or
// that cannot keep what it has to keep.
func (s *Settled) unsupportedRollout(refuse func(key, what, hint string)) {
	const owner = "explorer.rollout_model"
	for _, name := range modelsOwn {
		home := name
		if name == "chat_template" {
			home = "custom_chat_template"
		}
		if key := tags.Join(owner, name); s.IsSet(key) && fmt.Sprint(s.at(key)) != fmt.Sprint(s.at("model."+home)) {
			refuse(key, "a value that differs from the trained model's", "set model."+home)
		}
	}
	const kv = owner + ".kv_across_versions"
	if why := s.unusedByEngines(kv); s.Samples && s.Explorer.RolloutModel.KvAcrossVersions == "keep" && why != "" {
		refuse(kv, "a KV cache that outlives its weights: "+why, "set it to recompute")
	}
}

// at returns the value of a key of the schema, nil if it is not set.
func (c *Config) at(key string) any {
	v := reflect.ValueOf(c).Elem()
	for _, segment := range strings.Split(key, ".") {
		f, _ := fieldOf(v.Type(), segment)
		if v = reflect.Indirect(v.FieldByIndex(f.Index)); !v.IsValid() {
			return nil
		}
	}
	return v.Interface()
}

const trainerConfigKey = "trainer.trainer_config"

// readsVerl reports whether this program or its engine reads a key of trainer_config.
func (s *Settled) readsVerl(key string) bool {
	if reason, says := (openedEngine{"trainer", s.Engines.Train}).reads(s, key); says && reason == "" {
		return true
	}
	return key == actorKey+".ppo_mini_batch_size" || key == actorKey+".ppo_epochs" || key == gradientCheckpointingKey ||
		slices.ContainsFunc(readOfCritic(), func(known string) bool { return below(key, known) })
}

func trainerConfigHint(key string) string {
	switch {
	case key == criticOptimKey+".clip_grad":
		return "use grad_clip of critic"
	case below(key, criticOptimKey):
		return "critic.optim takes the keys of algorithm.optimizer"
	case below(key, criticKey):
		return "critic takes optim, cliprange_value, ppo_epochs, ppo_mini_batch_size and grad_clip"
	case strings.Contains(key, ".optim."):
		return "use algorithm.optimizer"
	case strings.HasSuffix(key, ".grad_clip"):
		return "use trainer.grad_clip"
	}
	return "this version reads actor_rollout_ref.actor.ppo_mini_batch_size and ppo_epochs, " +
		"actor_rollout_ref.model.enable_gradient_checkpointing, and critic"
}
