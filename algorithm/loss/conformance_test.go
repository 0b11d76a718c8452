package loss_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/trinitytest"
)

// Every registered policy loss passes the suite with its defaults and with every setting that
// testdata/record.py records.
func TestConformance(t *testing.T) {
	type setting struct {
		Name   string         `json:"name"`
		Policy string         `json:"policy_loss_fn"`
		Args   map[string]any `json:"policy_loss_fn_args"`
	}
	var recorded struct {
		Cases []setting `json:"cases"`
	}
	data, err := os.ReadFile("testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	settings := recorded.Cases
	for _, name := range loss.PolicyLosses.Names() {
		if name != "python" { // it has no default
			settings = append(settings, setting{Name: name + " by default", Policy: name})
		}
	}
	t.Run("python", func(t *testing.T) {
		host := trinitytest.Programs(t)
		trinitytest.Loss(t, func() loss.PolicyLoss {
			p, err := buildPython(t, "own_losses.cispo", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return openedBy(t, host, p).Policy
		})
	})
	for _, s := range settings {
		t.Run(s.Name, func(t *testing.T) {
			trinitytest.Loss(t, func() loss.PolicyLoss {
				p, err := loss.PolicyLosses.Build(s.Policy, s.Args)
				if err != nil {
					t.Fatal(err)
				}
				return p
			})
		})
	}
}
