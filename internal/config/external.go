package config

import (
	"cmp"
	"fmt"
	"os"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

const externalKey = "model.external_model"

// settleExternal makes a model behind an API answer in place of the rollout model if any key asks for it: model.external_model,
// the rollout model's own section, or engine_type. An engine of the command line takes its place.
func settleExternal(r report, explorer *Explorer, model *Model) {
	m, given := &explorer.RolloutModel, r.source.opts.Engine
	own := m.ExternalModelConfig
	asks := model.ExternalModel.Enable || m.EngineType == external || own != nil && own.Enable
	if !asks || given != "" && given != "auto" {
		model.ExternalModel.Enable = false
		return
	}
	if own != nil && own.ModelName != "" {
		if name := model.ExternalModel.ModelName; name != "" && *own != model.ExternalModel {
			r.fail("explorer.rollout_model.external_model_config",
				fmt.Sprintf("names another API than %s, which names the model %q", externalKey, name), "keep one of them")
		}
		model.ExternalModel = *own
	}
	model.ExternalModel.Enable, m.EngineType = true, external
}

// answers reports whether the API answers in place of the rollout model.
func (e *ExternalModel) answers(w Work) bool { return e.Enable && w.Samples }

// decidedByAPI is the reason of a key that every sampler reads but an API.
var decidedByAPI = unless(func(s *Settled) bool { return !s.Model.ExternalModel.answers(s.Work) }, "the API decides it")

// check returns what is wrong with a model behind an API that answers in place of the rollout model.
func (e *ExternalModel) check(r report, w Work) {
	if e.answers(w) && e.ModelName == "" {
		r.fail(externalKey+".model_name", "the model has no name at its server", "set it, such as gpt-4o-mini")
	}
}

// spec returns the API that answers in place of the rollout model, nothing if there is none.
func (e *ExternalModel) spec() (spec engine.ExternalSpec) {
	if !e.Enable {
		return spec
	}
	return engine.ExternalSpec{
		Model: e.ModelName, Address: cmp.Or(e.BaseURL, os.Getenv(e.BaseURLEnv)), Key: cmp.Or(os.Getenv(e.APIKeyEnv), openai.NoKey),
		Timeout: wait.Seconds(e.Timeout), Retries: e.MaxRetries, MaxRequests: e.MaxRequests, MaxTokens: e.MaxTokens,
	}
}

// externalWords tells what leaves the machine.
func (c *planner) externalWords() []string {
	e := &c.run.Model.ExternalModel
	if !e.answers(c.run.Work) {
		return nil
	}
	address := cmp.Or(e.BaseURL, "the address in "+e.BaseURLEnv)
	words := []string{
		fmt.Sprintf("API: %s at %s; %s has the key", e.ModelName, address, e.APIKeyEnv),
		"leaves: the messages of tasks, to be answered, each time they are asked",
	}
	if e.MaxRequests == 0 && e.MaxTokens == 0 {
		return append(words, "costs: nothing bounds them; max_requests and max_tokens of "+externalKey+" do")
	}
	return words
}
