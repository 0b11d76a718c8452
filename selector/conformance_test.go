package selector_test

import (
	"testing"

	"github.com/trinity-go/trinity/selector"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	for _, name := range selector.Selectors.Names() {
		if name == "python" { // TestPythonConformance has it
			continue
		}
		t.Run(name, func(t *testing.T) {
			keys := []string{"rank"}
			if name == "difficulty_based" {
				keys = []string{"weak", "strong"}
			}
			build := func() selector.Selector {
				s, err := selector.Selectors.Build(name, map[string]any{"seed": 7, "feature_keys": keys})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			trinitytest.Selector(t, build)
			if name != "random" && name != "difficulty_based" { // these two draw every batch independently
				trinitytest.SelectorEpochs(t, build)
			}
		})
	}
}
