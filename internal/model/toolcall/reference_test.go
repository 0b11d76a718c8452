package toolcall

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// The values are those of Python's ast.literal_eval and of python-jsonschema; testdata/record.py writes
// them.
func TestReferences(t *testing.T) {
	data, err := os.ReadFile("testdata/references.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Literals [][2]any
		Defs     any
		Values   []any
		Schemas  []struct {
			Schema  map[string]any
			Allowed []bool
		}
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	list := schema{of: map[string]any{"type": []any{"array", "object"}}}
	for _, l := range recorded.Literals {
		text := l[0].(string)
		var got any
		if err := json.Unmarshal(list.value(text), &got); err != nil || !reflect.DeepEqual(got, l[1]) {
			t.Errorf("%s: %v, want %v", text, got, l[1])
		}
	}
	for _, of := range recorded.Schemas {
		s := schema{root: map[string]any{"$defs": recorded.Defs}, of: of.Schema}
		for i, v := range recorded.Values {
			if got := s.allows(v, 0); got != of.Allowed[i] {
				t.Errorf("%v allows %#v: %v", of.Schema, v, got)
			}
		}
	}
}
