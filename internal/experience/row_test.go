package experience

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestRowsThatAreNoExperiences(t *testing.T) {
	for want, row := range map[string]map[string]any{
		"it has no tokens": {"prompt": "x"},
		"column experience is NULL, because no checkpoint of its run needs it: leave such rows out (WHERE experience IS NOT NULL), or read an archive": {"prompt": "x", "response": "y", "experience": nil},
		"cannot unmarshal":   {"tokens": "x"},
		"illegal base64":     {"experience": "<>"},
		"does not begin":     {"experience": "AAAA"},
		"before its length":  {"experience": "TGX1"},
		"mask has length 0":  {"tokens": []any{int64(1)}},
		"column experience:": {"experience": "\n!"},
	} {
		if e, err := FromRow(row); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, %v; want %q", row, e, err, want)
		}
	}
}

// A buffer in a database keeps prompt and response in columns, unless the column cannot hold the
// text.
func TestTextInColumns(t *testing.T) {
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 1, Task: "t"}, Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1}
	for inside, want := range map[string]string{"": "of the column", "exactly\x00": "exactly\x00"} {
		e.Prompt, e.Response = inside, inside
		data, err := Append(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := FromRow(map[string]any{column: string(data), "prompt": "of the column", "response": "of the column"})
		if err != nil || got.Prompt != want || got.Response != want {
			t.Errorf("read %q, %q, %v; want %q", got.Prompt, got.Response, err, want)
		}
	}
}

func TestJSONOfNumbersThatAreNotFinite(t *testing.T) {
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 1, Task: "t<1>"}, Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1}
	e.Reward = trinity.Reward{Value: math.NaN(), Valid: true, Parts: map[string]float64{"a": math.Inf(1), "b": 1}}
	e.Metrics = map[string]float64{"x": math.NaN()}
	data, err := AppendJSON([]byte("before "), e)
	if err != nil || !strings.HasPrefix(string(data), "before {") || !json.Valid(data[len("before "):]) ||
		!strings.Contains(string(data), `"valid":false,"reason":"the reward is NaN"`) || !strings.Contains(string(data), `"task":"t<1>"`) {
		t.Errorf("wrote %s, %v", data, err)
	}
	if len(e.Reward.Parts) != 2 || len(e.Metrics) != 1 || !e.Reward.Valid {
		t.Error("AppendJSON changed the experience")
	}
}
