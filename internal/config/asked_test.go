package config

import (
	"strings"
	"testing"
)

const judges = auxiliaryModelsKey + "=[{name: small, model_path: j, temperature: 0, use_v1: false}, " +
	"{name: large, engine_type: external, top_k: 3, external_model_config: {base_url: \"http://user:secret@host/v1\", model_name: m}}]"

func TestAskedModels(t *testing.T) {
	c := mustParse(t, base, Options{Overrides: []string{judges}})
	s := c.settled[0]
	if len(s.Asked) != 2 || s.Asked[0].External || !s.Asked[1].External ||
		*s.Asked[0].Temperature != 0 || s.Asked[1].ExternalModelConfig.Timeout != 120 {
		t.Errorf("%+v", s.Asked)
	}
	reasons := map[string]string{}
	for _, n := range s.Unused() {
		reasons[n.Key] = n.Reason
	}
	if len(reasons) != 2 || !strings.Contains(reasons[auxiliaryModelsKey+".0.use_v1"], "does not read it") ||
		!strings.Contains(reasons[auxiliaryModelsKey+".1.top_k"], "the server decides") {
		t.Errorf("unused: %v", reasons)
	}
	p, err := c.Plan(Facts{})
	if text := p.String(); err != nil || !strings.Contains(text, "  asks         small, j\n") ||
		!strings.Contains(text, "large, m at http://") ||
		strings.Contains(text, "secret") {
		t.Errorf("%v\n%s", err, text)
	}
	effective, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, effective).settled[0].Asked; len(again) != 2 || again[1].ExternalModelConfig.ModelName != "m" {
		t.Errorf("the effective configuration has %+v", again)
	}
	train := mustParse(t, base, Options{Overrides: []string{judges, "mode=train", "buffer.train_batch_size=4"}}).settled[0]
	if len(train.Asked) != 0 || train.unusedReason(auxiliaryModelsKey+".0.name") != "only rollouts ask it" {
		t.Errorf("mode train asks %+v", train.Asked)
	}
}

func TestRefusedAskedModels(t *testing.T) {
	const first = auxiliaryModelsKey + ".0"
	for override, want := range map[string][2]string{
		"[{name: policy, model_path: j}]":                      {first + ".name", "is also the name of the policy"},
		"[{name: a, model_path: j}, {name: a, model_path: k}]": {auxiliaryModelsKey + ".1.name", "is also the name of " + first},
		"[{name: a}]":                        {first + ".model_path", "the model has no model_path"},
		"[{name: a, engine_type: external}]": {first + ".external_model_config.model_name", "no name at its server"},
		"[{name: a, engine_type: external, external_model_config: {model_name: m, base_url: \"ftp://h/v1\"}}]": {
			first + ".external_model_config.base_url", `"ftp://h/v1" is not the address of a server`},
		"[{name: a, model_path: j, dtype: float16}]": {first + ".dtype", "this key of a model that rollouts ask"},
	} {
		_, err := parse(t, base, Options{Overrides: []string{auxiliaryModelsKey + "=" + override}})
		if err == nil || !strings.Contains(err.Error(), want[0]+": ") || !strings.Contains(err.Error(), want[1]) {
			t.Errorf("%s: error %v, want %v", override, err, want)
		}
	}
}
