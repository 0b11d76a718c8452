package reward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("json_schema_reward",
		"Structured output by a JSON schema (draft 2020-12, `format` included). The whole reply must be JSON. `valid_score` if it satisfies "+
			"the schema, else `partial_score` times the share of keys that do. The share counts the keys that the schema requires and "+
			"the keys of the reply that the schema names or refuses. `answer_score` in addition times the share of the truth's keys that "+
			"have the truth's value; the truth is JSON too. Parts: schema_score, and accuracy unless `answer_score` is 0.",
		func() trinity.RewardFunc { return &schemaReward{ValidScore: 1, PartialScore: 0.5} })
}

// schemaReward scores structured output by a JSON schema.
type schemaReward struct {
	Schema       map[string]any `yaml:"schema" required:"write the JSON schema of the replies" doc:"its $ref may point into itself only"`
	ValidScore   float64        `yaml:"valid_score" range:"(,)" doc:"for a reply that satisfies the schema"`
	PartialScore float64        `yaml:"partial_score" range:"(,)" doc:"times the share of satisfied keys, for any other JSON"`
	AnswerScore  float64        `yaml:"answer_score" range:"(,)" doc:"times the share of the truth's keys in the reply; 0 reads no truth"`

	schema *jsonschema.Schema
	named  map[string]bool // keys of the top level that the schema names
	needed map[string]bool // those that it requires
}

// Validate compiles the schema.
func (s *schemaReward) Validate() (err error) {
	text, err := json.Marshal(s.Schema)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if err := checkPatterns(doc, "schema"); err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nil) // a schema reads neither files nor URLs
	c.AssertFormat()
	const name = "mem:schema"
	if err = c.AddResource(name, doc); err == nil {
		s.schema, err = c.Compile(name)
	}
	if err != nil {
		return fmt.Errorf("schema: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	s.named, s.needed = map[string]bool{}, map[string]bool{}
	s.collect(s.schema, map[*jsonschema.Schema]bool{})
	return nil
}

// checkPatterns names the first pattern of a schema that Go's expressions (RE2, whose time is linear)
// do not know, and where it stands.
func checkPatterns(schema any, where string) error {
	switch s := schema.(type) {
	case []any:
		for i, part := range s {
			if err := checkPatterns(part, fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(s)) {
			at, value := where+"."+key, s[key]
			named, isMap := value.(map[string]any)
			switch {
			case slices.Contains(strings.Fields("const enum default examples"), key): // values, not schemas
			case key == "pattern":
				if text, ok := value.(string); ok {
					if err := checkPattern(at, text); err != nil {
						return err
					}
				}
			case slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}, key) && isMap:
				for _, name := range slices.Sorted(maps.Keys(named)) {
					var err error
					if key == "patternProperties" {
						err = checkPattern(at, name)
					}
					if err == nil {
						err = checkPatterns(named[name], at+"."+name)
					}
					if err != nil {
						return err
					}
				}
			default:
				if err := checkPatterns(value, at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func checkPattern(where, pattern string) error {
	_, err := regexp.Compile(pattern)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %q is no expression of RE2 (%s), which has no look-around and no back-references: write the pattern without them",
		where, pattern, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// collect adds the keys that a schema of the top level names and requires.
func (s *schemaReward) collect(schema *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if schema == nil || seen[schema] {
		return
	}
	seen[schema] = true
	for key := range schema.Properties {
		s.named[key] = true
	}
	for _, key := range schema.Required {
		s.needed[key] = true
	}
	s.collect(schema.Ref, seen)
	for _, part := range schema.AllOf {
		s.collect(part, seen)
	}
}

// Requires implements [trinity.Requirer].
func (s *schemaReward) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, err := s.truth(trinity.RewardInput{Task: t, Truth: t.Truth()})
		return err
	}}
}

// truth returns the decoded truth, nil if the reward does not read it.
func (s *schemaReward) truth(in trinity.RewardInput) (truth any, err error) {
	switch {
	case s.AnswerScore == 0:
		return nil, nil
	case in.Truth == "":
		return nil, errors.New(noTruth(in).Reason)
	case json.Unmarshal([]byte(in.Truth), &truth) != nil:
		return nil, fmt.Errorf("the truth is not JSON: %q", in.Truth)
	}
	return truth, nil
}

// Score implements [trinity.RewardFunc].
func (s *schemaReward) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, err := s.truth(in)
	if err != nil {
		return trinity.InvalidReward(err.Error()), nil
	}
	parts := map[string]float64{"schema_score": 0}
	var reply any
	isJSON := json.Unmarshal([]byte(in.Response), &reply) == nil
	if isJSON {
		parts["schema_score"] = s.satisfied(reply)
	}
	if s.AnswerScore != 0 {
		parts["accuracy"] = 0
		if isJSON {
			parts["accuracy"] = s.AnswerScore * agreement(reply, truth)
		}
	}
	return trinity.NewReward(parts), nil
}

// satisfied returns the score of a reply for the schema.
func (s *schemaReward) satisfied(reply any) float64 {
	err := s.schema.Validate(reply)
	var wrong *jsonschema.ValidationError
	if !errors.As(err, &wrong) {
		return s.ValidScore
	}
	object, _ := reply.(map[string]any)
	counted, failed := map[string]bool{}, map[string]bool{}
	for key := range s.needed {
		counted[key] = true
	}
	for key := range object {
		if s.named[key] {
			counted[key] = true
		}
	}
	failures(wrong, failed)
	for key := range failed {
		counted[key] = true
	}
	if object == nil || len(counted) == 0 {
		return 0
	}
	return s.PartialScore * float64(len(counted)-len(failed)) / float64(len(counted))
}

// failures collects the keys of the top level that do not satisfy the schema.
func failures(e *jsonschema.ValidationError, failed map[string]bool) {
	if len(e.InstanceLocation) > 0 {
		failed[e.InstanceLocation[0]] = true
		return
	}
	var keys []string
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		keys = k.Missing
	case *kind.DependentRequired:
		keys = k.Missing
	case *kind.AdditionalProperties:
		keys = k.Properties
	case *kind.PropertyNames:
		keys = []string{k.Property}
	}
	for _, key := range keys {
		failed[key] = true
	}
	for _, cause := range e.Causes {
		failures(cause, failed)
	}
}

// agreement returns the share of the truth's keys that the reply has with the same value. A truth
// that is not an object agrees as a whole or not at all.
func agreement(reply, truth any) float64 {
	want, isObject := truth.(map[string]any)
	got, _ := reply.(map[string]any)
	if !isObject || len(want) == 0 {
		if reflect.DeepEqual(reply, truth) {
			return 1
		}
		return 0
	}
	same := 0
	for key, v := range want {
		if given, ok := got[key]; ok && reflect.DeepEqual(given, v) {
			same++
		}
	}
	return float64(same) / float64(len(want))
}
