package finetune

import (
	"encoding/json"
	"testing"
)

func TestNumbersOfHyperparameters(t *testing.T) {
	var h Hyperparameters
	if err := Read([]byte(`{"batch_size": "auto", "n_epochs": 3}`), &h); err != nil {
		t.Fatal(err)
	}
	if !h.BatchSize.Auto() || h.NEpochs.Auto() || *h.NEpochs != 3 || !h.Beta.Auto() {
		t.Errorf("%+v", h)
	}
	if text, err := json.Marshal(h); err != nil || string(text) != `{"batch_size":"auto","n_epochs":3}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestTermsBelongToTheTypeOfTheirMethod(t *testing.T) {
	for text, want := range map[string]bool{
		`{"type": "dpo"}`: true, `{"type": "dpo", "dpo": {}}`: true, `{"type": "dpo", "supervised": {}}`: false, `{"type": "ppo"}`: false,
	} {
		var m Method
		if err := Read([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.Terms(); ok != want {
			t.Errorf("%s: %v", text, ok)
		}
	}
	m := Method{Type: DPO, DPO: &MethodTerms{}}
	if other := m.With(&Hyperparameters{}); m.DPO.Hyperparameters != nil || other.DPO.Hyperparameters == nil {
		t.Error("the methods share their terms")
	}
}

func TestFailuresOfGradersHaveNames(t *testing.T) {
	for reason, want := range map[string]string{
		"grader g: python_grader_runtime_error: status 1": "python_grader_runtime_error", "no such thing": "other_error", "": "",
		"grader m: grader l: model_grader_server_error: sample_parse_error: x": "model_grader_server_error",
	} {
		for name, value := range GraderErrors(reason) {
			if is, ok := value.(bool); ok && is != (name == want) {
				t.Errorf("%q: %s is %v", reason, name, is)
			}
		}
	}
	if all := GraderErrors("grader g: python_grader_runtime_error: status 1"); all["python_grader_runtime_error_details"] != "status 1" ||
		all["model_grader_server_error_details"] != nil {
		t.Errorf("%v", all)
	}
}
