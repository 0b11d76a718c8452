package config

import (
	"cmp"
	"fmt"
	"os"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

const externalKey = "model.external_model"

// settleExternal makes a model behind an API answer in place of the rollout model if any key asks for it: model.external_model,
// the rollout model's own section, or engine_type. An engine of the command line takes its place.
func settleExternal(r report, explorer *Explorer, model *Model) {
	m, given := &explorer.RolloutModel, r.source.opts.Engine
	own := m.ExternalModelConfig
	enabled := model.ExternalModel.Enable || own != nil && own.Enable
	if enabled && r.IsSet(engineTypeKey) && !named(m.EngineType, "auto", external) && (given == "" || given == "auto") {
		r.fail(engineTypeKey, fmt.Sprintf("is %s, and the model behind an API, which is enabled (%s), would answer in its place",
			m.EngineType, externalKey), "leave one of the two out")
	}
	asks := enabled || m.EngineType == external
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
	if e.answers(w) {
		e.checkServer(r, externalKey)
	}
}

// checkServer reports a model without a name, and an address that is none, in the section at a key.
func (e *ExternalModel) checkServer(r report, key string) {
	if e.ModelName == "" {
		r.fail(key+".model_name", "the model has no name at its server", "set it, such as gpt-4o-mini")
	}
	if e.BaseURL == "" {
		return
	}
	if _, err := openai.Root(e.BaseURL); err != nil {
		r.fail(key+".base_url", fmt.Sprintf("%q is not the address of a server", safetext.Hidden(e.BaseURL)),
			"write http://HOST:PORT/v1 or https://…")
	}
}

// spec returns the API that answers in place of the rollout model, nothing if there is none.
func (e *ExternalModel) spec() (spec engine.ExternalSpec) {
	if !e.Enable {
		return spec
	}
	return engine.ExternalSpec{
		Model: e.ModelName, Address: cmp.Or(e.BaseURL, os.Getenv(e.BaseURLEnv)), Key: cmp.Or(os.Getenv(e.APIKeyEnv), openai.NoKey),
		KeyEnv: e.APIKeyEnv, Timeout: wait.Seconds(e.Timeout), Retries: e.MaxRetries, MaxRequests: e.MaxRequests, MaxTokens: e.MaxTokens,
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
	step, all := c.questions()
	switch most := int64(e.MaxRequests); {
	case most == 0: // not bounded
	case step > most:
		words = append(words, fmt.Sprintf("costs: max_requests %d ends each start of the run in the same step, which asks %d questions "+
			"or more: raise it", most, step))
	case all > most:
		words = append(words, fmt.Sprintf("costs: max_requests %d ends the run before its last question: it asks %d or more", most, all))
	}
	return words
}

// questions returns how many rollouts, each of one question or more, an explore step has, or an evaluation in mode bench, and the
// run; 0 if it is not known.
func (c *planner) questions() (step, all int64) {
	if c.run.Explores {
		steps, _ := c.exploreSteps()
		step = saturated(int64(c.run.Buffer.BatchSize), int64(c.run.Method.GroupSize))
		return step, saturated(steps, step)
	}
	for _, t := range c.run.Data.Tasksets {
		if t.Eval {
			all += saturated(int64(c.facts.Rows[t.Key]), int64(t.RepeatTimes))
		}
	}
	return 0, all
}
