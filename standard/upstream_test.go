package standard

import (
	"os"
	"regexp"
	"testing"

	"github.com/trinity-go/trinity/registry"
)

// Each workflow of Trinity-RFT that package config lists is there, or the refusal says what to use.
func TestWorkflowsOfTrinityRFT(t *testing.T) {
	source, err := os.ReadFile("../internal/config/upstream.go")
	if err != nil {
		t.Fatal(err)
	}
	mentions := map[string]int{}
	for _, m := range regexp.MustCompile(`"(\w+_workflow(_adapter\w*)?)"`).FindAllStringSubmatch(string(source), -1) {
		mentions[m[1]]++
	}
	if len(mentions) < 50 {
		t.Fatalf("found %d names", len(mentions))
	}
	for name, n := range mentions {
		switch there := registry.Workflows.Has(name); {
		case !there && n == 1:
			t.Errorf("%s: neither there nor in the map substitutes", name)
		case there && n > 1:
			t.Errorf("%s is there: take it out of the map substitutes", name)
		}
	}
}
