package cli

import (
	"strings"
	"testing"
)

// Every folder of examples with templates has a topic, so that none is listed among those of trinity init.
func TestTemplatesHaveTopics(t *testing.T) {
	all, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	ofInit := map[string]bool{}
	for _, kind := range taskKinds {
		ofInit[kind[0]] = true
	}
	for _, of := range all {
		if topicOf(of.Name) == 0 && !ofInit[of.Name] {
			t.Errorf("%s has no topic: add its folder to topics", of.Name)
		}
		if of.Doc == "" || !ofInit[of.Name] && of.Model == "" || strings.ContainsAny(of.Model, "{}$,") {
			t.Errorf("%s: teaches %q, with the model %q", of.Name, of.Doc, of.Model)
		}
	}
}
