package config

import (
	"strings"
	"testing"
)

// A model behind an API answers in place of no engine that the file names, and at no address that is none.
func TestRefusedExternalModels(t *testing.T) {
	const enabled = "model.external_model={enable: true, model_name: m, base_url: \"BASE\"}"
	at := func(base string) string { return strings.Replace(enabled, "BASE", base, 1) }
	for _, c := range []struct {
		overrides []string
		want      string
	}{
		{[]string{at("ftp://h/v1")}, `model.external_model.base_url: "ftp://h/v1" is not the address of a server`},
		{[]string{at("h/v1")}, `model.external_model.base_url: "h/v1" is not the address of a server`},
		{[]string{at("http://h/v1"), "explorer.rollout_model.engine_type=vllm"},
			"engine_type: is vllm, and the model behind an API, which is enabled (model.external_model), would answer"},
		{[]string{"explorer.rollout_model.external_model_config={enable: true, model_name: m}", "explorer.rollout_model.engine_type=vllm"},
			"explorer.rollout_model.engine_type: is vllm"},
		{[]string{at("http://h/v1"), "explorer.rollout_model.engine_type=auto"}, ""},
		{[]string{at("http://h/v1"), "explorer.rollout_model.engine_type=external"}, ""},
	} {
		_, err := parse(t, base, Options{Overrides: c.overrides})
		text := ""
		if err != nil {
			text = err.Error()
		}
		refused := strings.Contains(text, "answer") || strings.Contains(text, "address")
		if refused != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%v: %s, want %q", c.overrides, text, c.want)
		}
	}
}

// The plan compares a limit with the questions of a step, and with those of the run.
func TestPlanOfALimitOfQuestions(t *testing.T) {
	explore, bench := []string{"mode=explore"}, []string{"mode=bench", "buffer.explorer_input.eval_tasksets=[{name: e, path: p}]"}
	rows := Facts{Rows: map[string]int{"buffer.explorer_input.taskset": 12, "buffer.explorer_input.eval_tasksets.0": 12}}
	for _, c := range []struct {
		most  int
		mode  []string
		words string // "": none about costs
	}{
		{7, explore, "costs: max_requests 7 ends each start of the run in the same step, which asks 8 questions or more: raise it"},
		{23, explore, "costs: max_requests 23 ends the run before its last question: it asks 24 or more"},
		{24, explore, ""},
		{11, bench, "costs: max_requests 11 ends the run before its last question: it asks 12 or more"},
		{12, bench, ""},
	} {
		run := mustParse(t, base, Options{Overrides: c.mode}).settled[0]
		run.Model.ExternalModel = ExternalModel{Enable: true, MaxRequests: c.most}
		text := strings.Join((&planner{run: run, facts: rows}).externalWords(), "\n")
		if !strings.Contains(text, c.words) || strings.Contains(text, "costs") != (c.words != "") {
			t.Errorf("%d: %s, want %q", c.most, text, c.words)
		}
	}
}
