package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// Adapter returns the value of SamplingParams.Adapter for an adapter that rollout_args names: ""
// for the trained adapter, which is the policy.
func (m *Model) Adapter(name string) string {
	if len(m.LoraConfigs) > 0 && name == m.LoraConfigs[0].Name {
		return ""
	}
	return name
}

// SampledAdapters returns all adapters but the first, which is the trained one.
func (m *Model) SampledAdapters() []Lora {
	if len(m.LoraConfigs) < 2 {
		return nil
	}
	return m.LoraConfigs[1:]
}

// adapterNames returns the names that rollout_args may use.
func (m *Model) adapterNames() []string {
	if len(m.LoraConfigs) == 0 {
		return nil
	}
	names := []string{trinity.BaseAdapter}
	for _, l := range m.LoraConfigs {
		if l.Name != "" {
			names = append(names, l.Name)
		}
	}
	return names
}

// adapters checks the list of adapters.
func (r *rules) adapters() {
	seen := map[string]int{trinity.BaseAdapter: -1}
	for i, l := range r.Model.LoraConfigs {
		key := fmt.Sprintf("model.lora_configs.%d", i)
		if i > 0 && l.Name == "" {
			r.fail(key, "the adapter has no name", "only the first adapter is trained; name a further one, for rollout_args.adapter of a taskset")
			continue
		}
		if i > 0 && l.Path == "" {
			r.fail(key, fmt.Sprintf("adapter %q has no path", l.Name),
				"only the first adapter is trained; a further one is read from a PEFT directory")
		}
		if other, twice := seen[l.Name]; twice && l.Name != "" {
			of := "the model without adapters"
			if other >= 0 {
				of = fmt.Sprintf("model.lora_configs.%d", other)
			}
			r.fail(key+".name", fmt.Sprintf("%q is also the name of %s", l.Name, of), "choose another name")
		}
		seen[l.Name] = i
	}
}

// tasksetAdapter checks the adapter that samples a taskset.
func (r *rules) tasksetAdapter(t TasksetEntry) {
	key, name := t.Key+".rollout_args.adapter", t.RolloutArgs.Adapter
	names := r.Model.adapterNames()
	switch {
	case name == "":
	case len(names) == 0:
		r.fail(key, fmt.Sprintf("there is no adapter %q", name), "list adapters in model.lora_configs")
	case !slices.Contains(names, name):
		r.fail(key, fmt.Sprintf("there is no adapter %q", name), "adapters are "+strings.Join(names, ", "))
	case !t.Eval && r.Together && r.Model.Adapter(name) != "":
		r.fail(key, fmt.Sprintf("%q is not the trained adapter", name),
			"the policy samples training tasks; leave it out, or use an evaluation taskset or mode explore")
	}
}
