package reward

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// A template of any text gives a text or a failure of the API. A value with a variable in it is not filled again, so
// templates have no cycles.
func FuzzGraderTemplate(f *testing.F) {
	for _, template := range []string{
		"{{ item.a }}", "{{item.list[0].b}}", "{{ sample.output_json.x }}", "{{ item.again }}", "{{{{ item.a }}}}", "{{ item }}", "{{}}",
		"{{ item.list[99999999999999999999] }}",
		"{{ sample.choices[0].message.content }}", "{{ item.a[\"x\"] }}", "{{ item.list[-1] }}", "{{ item..a }}",
	} {
		f.Add(template, `{"x": 1}`)
	}
	row := map[string]any{"a": "x", "list": []any{map[string]any{"b": 1.5}}, "again": "{{ item.again }}", "null": nil}
	f.Fuzz(func(t *testing.T, template, reply string) {
		s := newSample(trinity.RewardInput{Task: &trinity.Task{Row: row}, Response: reply})
		text, err := s.fill(template)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "invalid_variable_error: ") && !strings.HasPrefix(err.Error(), "sample_parse_error: ") {
				t.Errorf("%q: %v", template, err)
			}
			return
		}
		if !strings.Contains(template, "{{") && text != template {
			t.Errorf("%q became %q", template, text)
		}
	})
}

func TestTemplatesHaveNoCycles(t *testing.T) {
	s := newSample(trinity.RewardInput{Task: &trinity.Task{Row: map[string]any{"a": "{{ item.b }}", "b": "{{ item.a }}"}}})
	if text, err := s.fill("{{ item.a }}"); text != "{{ item.b }}" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
