package reward

import (
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// ticket is the schema of a support ticket.
var ticket = map[string]any{
	"$ref": "#/$defs/ticket",
	"$defs": map[string]any{"ticket": map[string]any{
		"type": "object", "additionalProperties": false, "required": []any{"team", "urgent"},
		"properties": map[string]any{
			"team":   map[string]any{"enum": []any{"billing", "shipping"}},
			"urgent": map[string]any{"type": "boolean"},
			"date":   map[string]any{"type": "string", "format": "date"},
			"tags":   map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
		},
	}},
}

func TestSchemaRewardCountsSatisfiedKeys(t *testing.T) {
	fn := build(t, "json_schema_reward", map[string]any{"schema": ticket})
	for reply, want := range map[string]float64{
		`{"team": "billing", "urgent": false}`:                       1,
		`{"team": "billing", "urgent": true, "date": "2026-02-28"}`:  1,
		`{"team": "billing", "urgent": true, "date": "2026-02-30"}`:  0.5 * 2 / 3,
		`{"team": "billing"}`:                                        0.5 / 2,
		`{"team": "billing", "urgent": "no"}`:                        0.5 / 2,
		`{"team": "sales", "urgent": "no"}`:                          0,
		`{"team": "billing", "urgent": true, "x": 1, "y": 2}`:        0.5 * 2 / 4,
		`{"team": "billing", "urgent": true, "tags": ["a", 1, [2]]}`: 0.5 * 2 / 3,
		`{}`:                                     0,
		`[]`:                                     0,
		`null`:                                   0,
		`7`:                                      0,
		`{"team": "billing"} {}`:                 0,
		`Here: {"team":"billing","urgent":true}`: 0,
	} {
		r, err := fn.Score(t.Context(), trinity.RewardInput{Response: reply})
		if err != nil || !r.Valid || math.Abs(r.Value-want) > 1e-12 {
			t.Errorf("%s: got %+v, %v; want %v", reply, r, err, want)
		}
	}
}

func TestUnnamedKeysDoNotRaiseTheShare(t *testing.T) {
	fn := build(t, "json_schema_reward", map[string]any{"schema": map[string]any{"required": []any{"a", "b"}}})
	r, _ := fn.Score(t.Context(), trinity.RewardInput{Response: `{"a": 1, "c": 1, "d": 1, "e": 1}`})
	if r.Value != 0.25 {
		t.Errorf("got %v, want 0.25: one of two keys", r.Value)
	}
}

func TestSchemaRewardComparesWithTheTruth(t *testing.T) {
	fn := build(t, "json_schema_reward", map[string]any{"schema": ticket, "answer_score": 2})
	in := trinity.RewardInput{Truth: `{"team": "billing", "urgent": true}`}
	for reply, want := range map[string]float64{
		`{"urgent": true, "team": "billing"}`:  3,
		`{"team": "billing", "urgent": false}`: 2,
		`{"team": "sales", "urgent": true}`:    0.25 + 1,
		`billing`:                              0,
	} {
		in.Response = reply
		if r, err := fn.Score(t.Context(), in); err != nil || r.Value != want || r.Parts["schema_score"]+r.Parts["accuracy"] != want {
			t.Errorf("%s: got %+v, %v; want %v", reply, r, err, want)
		}
	}
	in.Truth = "billing"
	if r, err := fn.Score(t.Context(), in); err != nil || r.Valid || !strings.Contains(r.Reason, "not JSON") {
		t.Errorf("got %+v, %v; want an invalid reward", r, err)
	}
}

func TestScoresOfSchemasAreFinite(t *testing.T) {
	for _, name := range []string{"valid_score", "partial_score", "answer_score"} {
		args := map[string]any{"schema": map[string]any{"type": "object"}, name: math.Inf(1)}
		errs := mustFind(t).Check("json_schema_reward", args)
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), name+": must be a finite") {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestSchemasAreChecked(t *testing.T) {
	for want, schema := range map[string]any{
		"schema: write":       map[string]any{},
		"'/type'":             map[string]any{"type": "objekt"},
		"no URLLoader":        map[string]any{"$ref": "file:///etc/passwd"},
		"schema: wants a map": "object",
	} {
		errs := mustFind(t).Check("json_schema_reward", map[string]any{"schema": schema})
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), want) || strings.Contains(errs[0].Error(), "\n") {
			t.Errorf("got %v, want one line with %q", errs, want)
		}
	}
}

// A pattern that Go's expressions do not know is named, with its place.
func TestPatternsOfSchemasAreNamed(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		schema m
		want   string
	}{
		{m{"pattern": "^(?!a)b"}, "schema.pattern: \"^(?!a)b\" is no expression of RE2 (invalid or unsupported Perl syntax: `(?!`)"},
		{m{"properties": m{"id": m{"pattern": `(a)\1`}}}, `schema.properties.id.pattern: "(a)\\1" is no expression of RE2`},
		{m{"patternProperties": m{"(?=a)": m{}}}, `schema.patternProperties: "(?=a)" is no expression of RE2`},
		{m{"allOf": []any{m{}, m{"items": m{"pattern": "(?<=x)y"}}}}, `schema.allOf[1].items.pattern: "(?<=x)y" is`},
		{m{"$defs": m{"t": m{"pattern": "("}}, "$ref": "#/$defs/t"}, `schema.$defs.t.pattern: "("`},
		{m{"properties": m{"pattern": m{"type": "string", "pattern": "^[a-z]+$"}}, "enum": []any{m{"pattern": "(?!"}}}, ""},
	} {
		err := (&schemaReward{Schema: c.schema}).Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.schema, err, c.want)
		}
	}
}
