package reward

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/tags"
)

// sample is what graders read of a reply and its row.
type sample struct {
	in    trinity.RewardInput
	parts map[string]float64 // scores by the names of graders
}

func newSample(in trinity.RewardInput) *sample { return &sample{in, map[string]float64{}} }

// item returns the row.
func (s *sample) item() any {
	if s.in.Task == nil {
		return map[string]any{}
	}
	return s.in.Task.Row
}

// object returns the reply as graders see it.
func (s *sample) object() map[string]any {
	var tools any
	message := map[string]any{"role": "assistant", "content": s.in.Response}
	if n := len(s.in.Messages); n > 0 && json.Unmarshal(s.in.Messages[n-1].ToolCalls, &tools) == nil {
		message["tool_calls"] = tools
	}
	if tools == nil {
		tools = []any{}
	}
	choice := map[string]any{"index": 0, "message": message}
	return map[string]any{"output_text": s.in.Response, "output_tools": tools, "choices": []any{choice}}
}

var variable = regexp.MustCompile(`\{\{\s*(.*?)\s*\}\}`)

// fill returns a template with the values of its variables.
func (s *sample) fill(template string) (text string, err error) {
	if strings.Contains(variable.ReplaceAllString(template, ""), "{{") { // which no reply would equal
		return "", failed("invalid_variable_error", "%.80q: a variable begins with {{ and does not end with }} on its line", template)
	}
	text = variable.ReplaceAllStringFunc(template, func(v string) string {
		value, wrong := s.value(variable.FindStringSubmatch(v)[1])
		if wrong != nil {
			err = wrong
			return ""
		}
		if text, ok := value.(string); ok {
			return text
		}
		var data strings.Builder
		e := json.NewEncoder(&data)
		e.SetEscapeHTML(false)
		if wrong := e.Encode(value); wrong != nil {
			err = failed("invalid_variable_error", "%s: %v", v, wrong)
		}
		return strings.TrimSuffix(data.String(), "\n")
	})
	return text, err
}

// both fills two templates.
func (s *sample) both(a, b string) (string, string, error) {
	a, err := s.fill(a)
	if err != nil {
		return "", "", err
	}
	b, err = s.fill(b)
	return a, b, err
}

// value returns the value of a variable, such as item.list[0].name.
func (s *sample) value(path string) (value any, err error) {
	keys := strings.Split(tags.Dotted(path), ".")
	switch keys[0] {
	case "item":
		value = s.item()
	case "sample":
		object := s.object()
		if len(keys) > 1 && keys[1] == "output_json" {
			var parsed any
			if err := json.Unmarshal([]byte(s.in.Response), &parsed); err != nil {
				return nil, failed("sample_parse_error", "{{ %s }}: the reply is no JSON: %v", path, err)
			}
			object["output_json"] = parsed
		}
		value = object
	default:
		return nil, failed("invalid_variable_error", "{{ %s }}: want item or sample", path)
	}
	for _, key := range keys[1:] {
		ok := false
		switch of := value.(type) {
		case map[string]any:
			value, ok = of[key]
		case []any:
			i, err := strconv.Atoi(strings.Trim(key, `"' `))
			if ok = err == nil && i >= 0 && i < len(of); ok {
				value = of[i]
			}
		}
		if !ok {
			return nil, failed("invalid_variable_error", "{{ %s }}: there is no %q", path, key)
		}
	}
	return value, nil
}
