package registry_test

import (
	"reflect"
	"testing"

	"github.com/trinity-go/trinity/registry"
)

type foreign struct {
	Class   string
	Section struct{ A, B int } `yaml:"elsewhere"`
}

type nesting struct {
	Parts   []string           `yaml:"parts"`
	Section struct{ A, B int } `yaml:"elsewhere"`
}

type textual struct {
	Elsewhere string `yaml:"elsewhere"`
}

// Names of others belong to one plug-in, which gets a section, as do plug-ins that name others.
func TestResolve(t *testing.T) {
	r := registry.New[any]("resolving", "")
	r.Register("elsewhere", "", func() any { return &foreign{} })
	r.Register("nesting", "", func() any { return &nesting{} })
	r.Register("textual", "", func() any { return &textual{} })
	r.Elsewhere("elsewhere", "class", "own")
	type m = map[string]any
	section := m{"a": 1, "b": 2}
	for _, c := range []struct {
		name      string
		args      m
		registers bool
		plugin    string
		all       m
	}{
		{"textual", m{"elsewhere": "x"}, true, "textual", m{"elsewhere": "x"}},
		{"nesting", m{"parts": 1}, false, "nesting", m{"parts": 1, "elsewhere": section}},
		{"nesting", m{"elsewhere": m{"b": 3}}, false, "nesting", m{"elsewhere": m{"a": 1, "b": 3}}},
		{"my.Name", m{"x": 1, "own": 2}, false, "elsewhere", m{"class": "my.Name", "args": m{"x": 1}, "own": 2, "elsewhere": section}},
		{"my.py:name", m{"elsewhere": m{"a": 3}}, false, "elsewhere", m{"class": "my.py:name", "args": m{}, "elsewhere": m{"a": 3, "b": 2}}},
		{"my.Name", m{"elsewhere": 3}, false, "elsewhere", m{"class": "my.Name", "args": m{"elsewhere": 3}, "elsewhere": section}},
		{"plain", m{}, false, "plain", m{}},
		{"plain", m{}, true, "elsewhere", m{"class": "plain", "args": m{}, "elsewhere": section}},
		{"elsewhere:textual", m{}, false, "elsewhere", m{"class": "textual", "args": m{}, "elsewhere": section}},
		{"elsewhere", m{"class": "x"}, true, "elsewhere", m{"class": "x", "elsewhere": section}},
		{"", nil, true, "", nil},
	} {
		plugin, all := r.Resolve(c.name, c.args, section, c.registers)
		if plugin != c.plugin || !reflect.DeepEqual(all, c.all) {
			t.Errorf("%s %v: %s %v, want %s %v", c.name, c.args, plugin, all, c.plugin, c.all)
		}
	}
	if !reflect.DeepEqual(section, m{"a": 1, "b": 2}) {
		t.Errorf("the section has changed: %v", section)
	}
}
