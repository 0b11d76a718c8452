package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// wireForm is the part of the operators' descriptions that specifies the JSON objects.
const wireForm = "An experience is an object with index (its number in the step) and group; id, task, step, run, " +
	"turn, prompt, response, prompt_tokens, response_tokens, truncated, versions; reward (null if " +
	"invalid), reason, parts, metrics, info. The answer holds the objects to keep, each with its index, " +
	"in any order. It may change reward (null makes it invalid, with reason), and change or add entries " +
	"of metrics and info. All other fields are read-only: an answer may leave them out, and changing one " +
	"ends the run. A number that is not finite becomes null."

// object is an experience as programs in other languages see it.
type object struct {
	Index int `json:"index"`
	Group int `json:"group"`
	experience.Row
	Versions [2]int64            `json:"versions"` // oldest, newest
	Parts    map[string]*float64 `json:"parts"`
	Metrics  map[string]*float64 `json:"metrics"`
	Info     map[string]any      `json:"info"`
}

// encode returns one line per experience: its JSON object and a newline.
func encode(groups []trinity.Group) ([][]byte, error) {
	var lines [][]byte
	for i, g := range groups {
		for _, e := range g {
			o := object{
				Index: len(lines), Group: i, Row: experience.NewRow(e), Versions: e.Versions,
				Parts: finite(e.Reward.Parts), Metrics: finite(e.Metrics), Info: e.Info,
			}
			if !scored(e) {
				o.Reward = nil
			}
			if o.Info == nil {
				o.Info = map[string]any{} // a program may add entries
			}
			var line bytes.Buffer
			enc := json.NewEncoder(&line)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(o); err != nil {
				return nil, fmt.Errorf("experience %s as JSON: %w", e.ID, err)
			}
			lines = append(lines, line.Bytes())
		}
	}
	return lines, nil
}

// finite returns the numbers of m, with nil for those that JSON cannot express.
func finite(m map[string]float64) map[string]*float64 {
	out := make(map[string]*float64, len(m))
	for k, v := range m {
		out[k] = nil
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[k] = &v
		}
	}
	return out
}

// answer is the JSON object that came back for one experience.
type answer struct {
	Index   *int                       `json:"index"`
	Reward  json.RawMessage            `json:"reward"`
	Reason  *string                    `json:"reason"`
	Metrics map[string]*float64        `json:"metrics"`
	Info    map[string]json.RawMessage `json:"info"`

	all map[string]json.RawMessage // every key of the object
}

// forReading lists the keys that answers may repeat but not change.
var forReading = []string{"group", "id", "task", "step", "run", "turn", "prompt", "response", "prompt_tokens",
	"response_tokens", "truncated", "versions", "parts"}

// decode reads a sequence of JSON objects. An error quotes the beginning of the text that it cannot
// read.
func decode(text []byte) ([]answer, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var answers []answer
	for {
		rest := text[d.InputOffset():]
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return answers, nil
		}
		var a answer
		if err == nil {
			a, err = readAnswer(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("answer %d: %w; it begins %q", len(answers)+1, err, short(rest))
		}
		answers = append(answers, a)
	}
}

// readAnswer reads one object.
func readAnswer(raw []byte) (a answer, err error) {
	if raw[0] != '{' {
		return a, errors.New("want a JSON object")
	}
	if err = json.Unmarshal(raw, &a.all); err != nil {
		return a, err
	}
	for key := range a.all {
		if key != "index" && !slices.Contains(writable, key) && !slices.Contains(forReading, key) {
			return a, fmt.Errorf("unknown key %q", key)
		}
	}
	return a, json.Unmarshal(raw, &a)
}

// writable lists the keys that answers may change.
var writable = []string{"reward", "reason", "metrics", "info"}

// short returns the first line of a text, truncated to 80 characters.
func short(text []byte) string {
	line, _, cut := strings.Cut(strings.TrimSpace(string(text)), "\n")
	const most = 80
	if r := []rune(line); len(r) > most {
		line, cut = string(r[:most]), true
	}
	if cut {
		line += "…"
	}
	return line
}

// readOnly returns an error if the answer changes a field of forReading. line is the object that
// the operator sent. The answer may leave out single parts.
func (a *answer) readOnly(line []byte) error {
	var sent map[string]json.RawMessage
	for _, key := range forReading {
		is, ok := a.all[key]
		if !ok {
			continue
		}
		if sent == nil {
			if err := json.Unmarshal(line, &sent); err != nil {
				return err
			}
		}
		if !sameJSON(is, sent[key]) {
			return fmt.Errorf("%s is read-only, but changed from %s to %s: change only %s", key, short(sent[key]), short(is),
				strings.Join(writable, ", "))
		}
	}
	return nil
}

// sameJSON reports whether two values are equal. Of two objects it compares the keys that is has.
func sameJSON(is, was []byte) bool {
	if bytes.Equal(is, was) {
		return true
	}
	var a, b any
	if json.Unmarshal(is, &a) != nil || json.Unmarshal(was, &b) != nil {
		return false
	}
	now, ok := a.(map[string]any)
	before, both := b.(map[string]any)
	if !ok || !both {
		return reflect.DeepEqual(a, b)
	}
	for k, v := range now {
		if old, ok := before[k]; !ok || !reflect.DeepEqual(v, old) {
			return false
		}
	}
	return true
}

// edit applies the answers to the experiences that the operator sent as lines, and drops
// experiences without an answer.
func edit(groups []trinity.Group, lines [][]byte, answers []answer) ([]trinity.Group, trinity.Metrics, error) {
	var all trinity.Group
	for _, g := range groups {
		all = append(all, g...)
	}
	answered := selection{}
	var diffs []float64
	for i, a := range answers {
		switch {
		case a.Index == nil:
			return nil, nil, fmt.Errorf("answer %d has no index: return the index of the experience", i+1)
		case *a.Index < 0 || *a.Index >= len(all):
			return nil, nil, fmt.Errorf("answer %d: index %d is not one of the %d experiences of the step", i+1, *a.Index, len(all))
		case answered[all[*a.Index]]:
			return nil, nil, fmt.Errorf("answer %d: an earlier answer has the index %d too", i+1, *a.Index)
		}
		e := all[*a.Index]
		answered[e] = true
		before, valid := e.Reward.Value, scored(e)
		err := a.readOnly(lines[*a.Index])
		if err == nil {
			err = a.apply(e)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("answer %d, of experience %s: %w", i+1, e.ID, err)
		}
		if valid && scored(e) {
			diffs = append(diffs, e.Reward.Value-before)
		}
	}
	kept, metrics := keep(groups, answered.has)
	summarize(metrics, "reward_diff", diffs)
	return kept, metrics, nil
}

// apply writes the changes of the answer into the experience.
func (a *answer) apply(e *trinity.Experience) error {
	if err := a.applyReward(e); err != nil {
		return err
	}
	metrics, info := maps.Clone(e.Metrics), maps.Clone(e.Info) // siblings may share them
	if metrics == nil {
		metrics = map[string]float64{}
	}
	if info == nil {
		info = map[string]any{}
	}
	for k, v := range a.Metrics {
		if v != nil {
			metrics[k] = *v
		}
	}
	for k, raw := range a.Info {
		if unchanged(e.Info, k, raw) { // an unchanged entry keeps its Go type
			continue
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("info.%s: %w", k, err)
		}
		info[k] = v
	}
	if len(metrics) > 0 {
		e.Metrics = metrics
	}
	if len(info) > 0 {
		e.Info = info
	}
	return nil
}

func (a *answer) applyReward(e *trinity.Experience) error {
	switch {
	case a.Reward == nil:
		return nil
	case string(a.Reward) != "null":
		var v float64
		if err := json.Unmarshal(a.Reward, &v); err != nil {
			return fmt.Errorf("reward: want a number or null, got %s", a.Reward)
		}
		e.Reward.Value, e.Reward.Valid, e.Reward.Reason = v, true, ""
	case scored(e):
		reason := "the operator took it away"
		if a.Reason != nil && *a.Reason != "" {
			reason = *a.Reason
		}
		e.Reward = trinity.InvalidReward(reason)
	}
	return nil
}

// unchanged reports whether the entry of info came back as it was sent.
func unchanged(info map[string]any, key string, raw json.RawMessage) bool {
	old, ok := info[key]
	if !ok {
		return false
	}
	had, err := json.Marshal(old)
	var is bytes.Buffer
	return err == nil && json.Compact(&is, raw) == nil && bytes.Equal(is.Bytes(), had)
}

// oneLine returns an error's text without the excerpt of the source that follows it.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
