package selector

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	for _, name := range registry.Selectors.Names() {
		t.Run(name, func(t *testing.T) {
			keys := []string{"rank"}
			if name == "difficulty_based" {
				keys = []string{"weak", "strong"}
			}
			build := func() trinity.Selector {
				s, err := registry.Selectors.Build(name, map[string]any{"seed": 7, "feature_keys": keys})
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
