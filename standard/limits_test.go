package standard

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

// The limits that the tags of an argument state are enforced at, below and above each bound, for
// every plug-in.
func TestLimitsOfArgumentsAreEnforced(t *testing.T) {
	ranges, enums, required := 0, 0, 0
	for _, kind := range registry.Kinds() {
		c, _ := registry.Find(kind)
		for _, name := range c.Names() {
			info, err := c.Explain(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range info.Fields {
				refuses := func(v any, want bool) {
					got := false
					for _, e := range c.Check(name, map[string]any{f.Key: v}) {
						byTag := strings.HasPrefix(e.Message, "must be ") || strings.HasPrefix(e.Message, "want ") || f.Required
						got = got || e.Key == f.Key && byTag
					}
					if got != want {
						t.Errorf("%s %s: %s: %v is refused: %v, want %v (%s)", kind, name, f.Key, v, got, want, f.Limits())
					}
				}
				if f.Range != "" && (f.Type == "int" || f.Type == "float") {
					ranges++
					for v, want := range around(tags.ParseInterval(f.Range), f.Type == "int") {
						refuses(v, want)
					}
				}
				for _, v := range f.Enum {
					enums++
					refuses(v, false)
				}
				if f.Enum != nil {
					refuses("no value", true)
				}
				if f.Required && f.Type == "string" {
					required++
					refuses("", true)
				}
			}
		}
	}
	if ranges < 200 || enums < 100 || required < 20 {
		t.Errorf("%d ranges, %d values and %d required arguments were tried", ranges, enums, required)
	}
}

// around returns numbers at, below and above the bounds of an interval, and whether it lacks them.
func around(r tags.Interval, whole bool) map[any]bool {
	all := map[any]bool{}
	for _, bound := range []float64{r.Low, r.High} {
		switch {
		case whole && math.IsInf(bound, 0):
		case whole:
			for _, n := range []int{int(bound) - 1, int(bound), int(bound) + 1} {
				all[n] = !r.Has(float64(n))
			}
		default:
			step := max(1e-3, math.Abs(bound)*1e-3)
			for _, x := range []float64{bound - step, bound, bound + step} {
				all[x] = !r.Has(x)
			}
		}
	}
	if !whole {
		for _, x := range []float64{math.Inf(1), math.Inf(-1)} {
			all[x] = !r.Has(x)
		}
		all[math.NaN()] = true
	}
	return all
}

// The JSON schema knows the limits of the arguments of the plug-in that a key names.
func TestSchemaLimitsArguments(t *testing.T) {
	text, err := config.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{ // rloo has no argument epsilon
		`{"algorithm": {"advantage_fn": "grpo", "advantage_fn_args": {"epsilon": 0.1, "rank_penalty": null}}}`:     true,
		`{"algorithm": {"advantage_fn": "grpo", "advantage_fn_args": {"epsilon": "${oc.env:E}"}}}`:                 true,
		`{"algorithm": {"advantage_fn": "grpo", "advantage_fn_args": null}}`:                                       true,
		`{"algorithm": {"advantage_fn": "grpo", "advantage_fn_args": {"epsilon": 0}}}`:                             false,
		`{"algorithm": {"advantage_fn": "grpo", "advantage_fn_args": {"std_cal_level": "run"}}}`:                   false,
		`{"algorithm": {"advantage_fn": "rloo", "advantage_fn_args": {"epsilon": 0}}}`:                             true,
		`{"trainer": {"trainer_type": "torch", "trainer_args": {"head_rows": 0}}}`:                                 false,
		`{"trainer": {"trainer_type": "torch", "trainer_args": {"head_rows": 1.5}}}`:                               false,
		`{"trainer": {"trainer_type": "torch", "trainer_args": {"head_rows": 2.0}}}`:                               true,
		`{"data_processor": {"experience_pipeline": {"operators": [{"name": "top_k_filter", "args": {"k": 0}}]}}}`: false,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
