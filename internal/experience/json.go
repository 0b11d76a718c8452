package experience

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// AppendJSON appends the JSON form of an experience, which is that of trinity.Experience, to dst.
// JSON has no numbers that are not finite. An experience with such a reward gets an invalid one;
// such metrics, parts of the reward and entries of Info are left out; and a list of numbers per
// token is left out if one of them is not finite.
func AppendJSON(dst []byte, e *trinity.Experience) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(jsonSafe(e)); err != nil {
		return dst, fmt.Errorf("experience %s as JSON: %w", e.ID, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// jsonSafe returns a copy of the experience with finite numbers only.
func jsonSafe(e *trinity.Experience) *trinity.Experience {
	out := *e
	if !finite(e.Reward.Value) {
		out.Reward = trinity.InvalidReward(fmt.Sprintf("the reward is %v", e.Reward.Value))
	}
	out.Reward.Parts, out.Metrics = finiteOf(out.Reward.Parts), finiteOf(e.Metrics)
	out.Info, _ = JSONSafe(e.Info)
	for _, numbers := range []*[]float32{&out.Logprobs, &out.Advantages, &out.Returns, &out.RefLogprobs, &out.TeacherLogprobs} {
		if slices.ContainsFunc(*numbers, infinite) {
			*numbers = nil
		}
	}
	return &out
}

// NotFinite returns the word for a number that JSON does not have, as Python's json and JavaScript
// write it: NaN, Infinity or -Infinity; "" for a finite one.
func NotFinite(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return ""
}

// finiteOf returns the finite numbers of m; nil if there are none.
func finiteOf(m map[string]float64) map[string]float64 {
	var out map[string]float64
	for k, v := range m {
		if !finite(v) {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		out[k] = v
	}
	return out
}
