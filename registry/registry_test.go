package registry

import (
	"errors"
	"fmt"
	"math"
	"reflect"
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
		{"thing", map[string]any{"n": math.Inf(1)}, "whole number"},
		{"thing", map[string]any{"n": 1e300}, "whole number"},
		{"thing", map[string]any{"n": uint64(1 << 63)}, "whole number"},
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
	coef := Field{Key: "coef", Type: "float", Default: "0.5", Doc: "a weight"}
	if len(info.Fields) != 4 || !reflect.DeepEqual(info.Fields[0], coef) || info.Fields[3].Default != "null" {
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

type pair struct {
	Low  int `yaml:"low"`
	High int `yaml:"high"`
}

func (p *pair) Validate() error {
	if p.Low < 0 {
		return errors.New("this plug-in: wants more") // names no argument
	}
	if p.High < p.Low {
		return fmt.Errorf("high: must be at least low %d, got %d", p.Low, p.High)
	}
	return nil
}

// An error of a method Validate stands at the argument that it names first.
func TestErrorsOfValidateStandAtTheirArgument(t *testing.T) {
	kinds := New[*pair]("test_pair", "for tests")
	kinds.Register("pair", "Two numbers.", func() *pair { return &pair{} })
	for _, c := range []struct {
		low  int
		want ArgError
	}{
		{5, ArgError{Key: "high", Message: "must be at least low 5, got 0"}}, {-1, ArgError{Message: "this plug-in: wants more"}},
	} {
		if errs := kinds.Check("pair", map[string]any{"low": c.low}); len(errs) != 1 || errs[0] != c.want {
			t.Errorf("low %d: %v, want %v", c.low, errs, c.want)
		}
	}
}

type row struct {
	Weight float64 `yaml:"weight" range:"(,)"`
	Name   string  `yaml:"name" required:"name the part"`
}

type shared struct {
	Share float64 `yaml:"share" range:"[0,1]"`
}

type limited struct {
	shared `yaml:",inline"`
	N      *int    `yaml:"n" range:"[1,8]" excludes:"mode=slow"`
	Mode   string  `yaml:"mode" enum:"fast|slow"`
	Kind   *string `yaml:"kind" enum:"a|b"`
	Sizes  []int   `yaml:"sizes" range:"[0,)" need:"n"`
	Rows   []row   `yaml:"rows"`
}

// Tags limit the arguments of a plug-in, also those of embedded structs and of lists of structs, and
// Explain shows the limits.
func TestTagsLimitArguments(t *testing.T) {
	kinds := New[*limited]("test_limits", "for tests")
	kinds.Register("thing", "A thing.", func() *limited { return &limited{Mode: "fast"} })
	type args = map[string]any
	for _, c := range []struct {
		args args
		want string
	}{
		{nil, ""}, {args{"n": 1}, ""}, {args{"n": 8}, ""}, {args{"n": nil}, ""}, {args{"share": 1, "kind": "b"}, ""},
		{args{"n": 0}, "n: must be at least 1 and at most 8, got 0"}, {args{"n": 9}, "n: must be at least 1 and at most 8, got 9"},
		{args{"share": math.NaN()}, "share: must be at least 0 and at most 1, got NaN"},
		{args{"mode": "Fast"}, `mode: want fast or slow, got "Fast"`}, {args{"kind": ""}, `kind: want a or b, got ""`},
		{args{"n": 2, "mode": "slow"}, "n: has no effect beside mode: slow (remove one of them)"},
		{args{"sizes": []any{1}}, "sizes: needs n (set it too, or remove sizes)"}, {args{"sizes": []any{}}, ""},
		{args{"n": 2, "sizes": []any{1, -1}}, "sizes.1: must be at least 0, got -1"},
		{args{"rows": []any{args{"name": "x"}, args{"name": "y", "weight": math.Inf(1)}}}, "rows.1.weight: must be a finite number, got +Inf"},
		{args{"rows": []any{args{"weight": 1}}}, "rows.0.name: name the part"},
		{args{"sizes": []any{1, "many"}}, `sizes.1: wants a whole number, got "many"`},
	} {
		errs := kinds.Check("thing", c.args)
		if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) != 1 || errs[0].Error() != c.want) {
			t.Errorf("%v: %v, want %q", c.args, errs, c.want)
		}
		if _, err := kinds.Build("thing", c.args); (err == nil) != (c.want == "") || err != nil && err.Error() != "test_limits thing: "+c.want {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	info, err := kinds.Explain("thing")
	if err != nil {
		t.Fatal(err)
	}
	var limits []string
	for _, f := range info.Fields {
		limits = append(limits, f.Key+": "+f.Limits())
	}
	want := []string{"share: at least 0 and at most 1",
		"n: at least 1 and at most 8; not with mode: slow", "mode: fast or slow", "kind: a or b",
		"sizes: at least 0; needs n", "rows: "}
	if !reflect.DeepEqual(limits, want) {
		t.Errorf("%q, want %q", limits, want)
	}
}
