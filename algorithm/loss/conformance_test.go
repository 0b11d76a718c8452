package loss_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/trinity-go/trinity"
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

// Every registered KL function and entropy term passes its suite, and so do some in Python.
func TestTermsConform(t *testing.T) {
	host := trinitytest.Programs(t)
	open := func(t *testing.T, term any, err error) {
		t.Helper()
		if o, ok := term.(interface{ Open(trinity.Host) error }); ok && err == nil {
			err = o.Open(host)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	kl := func(name, of string, args map[string]any) {
		t.Run("KL "+name+" "+of, func(t *testing.T) {
			trinitytest.KL(t, func() loss.KL {
				k, err := loss.KLs.Build(name, args)
				open(t, k, err)
				return k
			})
		})
	}
	entropy := func(name string, args map[string]any) {
		t.Run("entropy "+name, func(t *testing.T) {
			trinitytest.Entropy(t, func() loss.Entropy {
				e, err := loss.Entropies.Build(name, args)
				open(t, e, err)
				return e
			})
		})
	}
	for _, name := range loss.KLs.Names() {
		if name != "python" {
			kl(name, "", map[string]any{"kl_coef": 0.5})
		}
	}
	for _, name := range loss.Entropies.Names() {
		if name != "python" {
			entropy(name, map[string]any{"entropy_coef": 0.5})
		}
	}
	for _, class := range []string{"own_losses.k2", "own_losses.no_kl"} {
		kl("python", class, trinitytest.PythonClass(t, class, map[string]any{"kl_coef": 0.5}, nil))
	}
	entropy("python", trinitytest.PythonClass(t, "own_losses.Bonus", map[string]any{"entropy_coef": 0.5}, nil))
}
