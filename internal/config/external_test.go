package config

import (
	"strings"
	"testing"
)

// An API of text is no rollout model, in a mode that trains as in one that evaluates. One line names what
// it lacks and what to use.
func TestExternalRolloutModel(t *testing.T) {
	for _, mode := range []string{"both", "explore", "bench"} {
		_, err := parse(t, base, Options{Overrides: []string{"mode=" + mode, engineTypeKey + "=external"}})
		want := engineTypeKey + `: the sampler "external" is not built into this version; rollouts are token ids`
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "base_urls") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("mode %s: %v", mode, err)
		}
	}
}
