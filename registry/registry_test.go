package registry

import (
	"errors"
	"strings"
	"testing"
)

type base struct {
	Coef float64 `yaml:"coef" doc:"a weight"`
}

type plugin struct {
	base `yaml:",inline"`
	N    int    `yaml:"n"`
	Mode string `yaml:"mode"`
	Opt  *int   `yaml:"opt"`
}

func (p *plugin) Validate() error {
	if p.N < 0 {
		return errors.New("n must not be negative")
	}
	return nil
}

var kinds = New[*plugin]("test_kind", "for tests")

func init() {
	kinds.Register("thing", "A thing.", func() *plugin { return &plugin{base: base{Coef: 0.5}, N: 3, Mode: "a"} })
}

func TestBuildMergesOverDefaults(t *testing.T) {
	p, err := kinds.Build("thing", map[string]any{"n": 7, "opt": 2}, map[string]any{"n": 8})
	if err != nil {
		t.Fatal(err)
	}
	if p.N != 8 || p.Mode != "a" || *p.Opt != 2 {
		t.Errorf("got %+v", p)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		args map[string]any
		want string // substring of the error, "" for none
	}{
		{"thing", nil, ""},
		{"thing", map[string]any{"n": 4.0, "coef": 1}, ""},
		{"thing", map[string]any{"moed": "b"}, `did you mean "mode"`},
		{"thing", map[string]any{"n": "four"}, `n: wants a whole number, got "four"`},
		{"thing", map[string]any{"coef": ".nan"}, `coef: wants a number, got ".nan"`},
		{"thing", map[string]any{"coef": true}, "coef: wants a number, got true"},
		{"thing", map[string]any{"mode": 3}, "mode: wants text, got 3"},
		{"thing", map[string]any{"n": 4.5}, "whole number"},
		{"thing", map[string]any{"n": -1}, "must not be negative"},
		{"thign", nil, `did you mean "thing"`},
	} {
		errs := kinds.Check(c.name, c.args)
		if c.want == "" && len(errs) > 0 {
			t.Errorf("Check(%s, %v) = %v, want none", c.name, c.args, errs)
		}
		if c.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), c.want)) {
			t.Errorf("Check(%s, %v) = %v, want %q", c.name, c.args, errs, c.want)
		}
	}
}

func TestCheckReturnsAllErrors(t *testing.T) {
	errs := kinds.Check("thing", map[string]any{"moed": "b", "n": "four", "coef": "x"})
	if len(errs) != 3 {
		t.Errorf("got %v, want the unknown key and both wrong types", errs)
	}
}

func TestExplain(t *testing.T) {
	info, err := kinds.Explain("thing")
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Fields) != 4 || info.Fields[0] != (Field{Key: "coef", Type: "float", Default: "0.5", Doc: "a weight"}) ||
		info.Fields[3].Default != "null" {
		t.Errorf("got %+v", info.Fields)
	}
}

// Defaults are YAML in one line, with the keys of arguments in place of Go's.
func TestDefaultsOfListsAndMaps(t *testing.T) {
	type inner struct {
		On    bool     `yaml:"on"`
		Words []string `yaml:"words"`
	}
	type outer struct {
		Inner inner          `yaml:"inner"`
		Many  []inner        `yaml:"many"`
		Map   map[string]any `yaml:"map"`
		None  map[string]any `yaml:"none"`
		Any   any            `yaml:"any"`
	}
	nested := New[*outer]("test_nested", "for tests")
	nested.Register("nested", "It nests.", func() *outer {
		return &outer{Inner: inner{Words: []string{"a", "b c"}}, Many: []inner{{On: true}}, Map: map[string]any{"n": 1, "l": []any{"x", nil}}}
	})
	info, err := nested.Explain("nested")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{on: false, words: ["a", "b c"]}`, `[{on: true, words: []}]`, `{l: ["x", null], n: 1}`, `{}`, `null`,
	} {
		if got := info.Fields[i].Default; got != want {
			t.Errorf("%s: %s, want %s", info.Fields[i].Key, got, want)
		}
	}
}

// A plug-in without arguments, which need not be a pointer, refuses all.
func TestPluginWithoutArguments(t *testing.T) {
	plain := New[struct{}]("test_plain", "for tests")
	plain.Register("plain", "It takes nothing.", func() struct{} { return struct{}{} })
	if errs := plain.Check("plain", map[string]any{"n": 1}); len(errs) != 1 || errs[0].Error() != "n: unknown argument (it takes none)" {
		t.Errorf("%v; want the unknown argument", errs)
	}
}
