package bridge

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// Experiences returns the experiences of groups as code in Python gets them.
func Experiences(groups []trinity.Group) []map[string]any {
	sent := []map[string]any{}
	for i, g := range groups {
		for _, e := range g {
			one := map[string]any{
				"index": len(sent), "group": i, "batch": e.ID.Step, "task": e.ID.Task, "run": e.ID.Run, "turn": e.ID.Turn,
				"tokens": packInts(e.Tokens), "prompt_length": e.PromptLen, "mask": packBools(e.Mask[e.PromptLen:]),
				"metrics": finite(e.Metrics), "info": infoOf(e), "truncated": e.Truncated, "prompt": e.Prompt, "response": e.Response,
			}
			for name, v := range map[string][]float32{
				"logprobs": e.Logprobs, "advantages": e.Advantages, "returns": e.Returns, "teacher_logprobs": e.TeacherLogprobs,
			} {
				if v != nil {
					one[name] = Pack(v[e.PromptLen:])
				}
			}
			if r := e.Reward; r.Valid && !math.IsNaN(r.Value) && !math.IsInf(r.Value, 0) {
				one["reward"] = r.Value
			}
			sent = append(sent, one)
		}
	}
	return sent
}

// The entries of an experience's info that classes of Trinity-RFT read: the version of the weights that sampled it, and
// which row it is.
const (
	modelVersion = "model_version"
	taskIndex    = "task_index"
)

func infoOf(e *trinity.Experience) map[string]any {
	info := maps.Clone(e.Info)
	if info == nil {
		info = map[string]any{}
	}
	if _, own := info[modelVersion]; !own {
		info[modelVersion] = e.Versions[1]
	}
	at := strings.LastIndex(e.ID.Task, "/")
	if _, own := info[taskIndex]; !own {
		if index, err := strconv.Atoi(e.ID.Task[at+1:]); err == nil && at > 0 {
			info[taskIndex] = map[string]any{"taskset_id": e.ID.Task[:at], "index": index}
		}
	}
	return info
}

// finite returns the numbers that JSON can express.
func finite(m map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, v := range m {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[name] = v
		}
	}
	return out
}

func packInts(values []int32) string {
	bits := make([]float32, len(values))
	for i, v := range values {
		bits[i] = math.Float32frombits(uint32(v))
	}
	return Pack(bits)
}

func packBools(values []bool) string {
	raw := make([]byte, len(values))
	for i, v := range values {
		if v {
			raw[i] = 1
		}
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// Edits are what code in Python has made of experiences: those to keep, in order, each with what it changed.
type Edits struct {
	Experiences []Edit
	Metrics     map[string]float64
	LeftOut     []string `json:"left_out"` // what is no finite number, or nobody reads
}

// Edit is an experience that came back. What is absent was not changed.
type Edit struct {
	Index      int
	Reward     json.RawMessage // null takes it away
	Reason     string
	Truncated  *trinity.Truncation
	Mask       *string
	Advantages *string
	Returns    *string
	Metrics    map[string]float64
	Info       map[string]any
}

// Apply returns the groups that are kept. An experience that came back twice is copied, with ids of its own, to a group
// of its own.
func (a *Edits) Apply(groups []trinity.Group) (kept []trinity.Group, err error) {
	var all []*trinity.Experience
	var of []int // group of each
	for i, g := range groups {
		for _, e := range g {
			all, of = append(all, e), append(of, i)
		}
	}
	type place struct{ group, round int }
	times, places := make([]int, len(all)), map[place]int{}
	was := make([]trinity.Experience, len(all)) // what copies are made of
	for i, e := range all {
		was[i] = *e
	}
	for i := range a.Experiences {
		edit := &a.Experiences[i]
		if edit.Index < 0 || edit.Index >= len(all) {
			return nil, fmt.Errorf("experience %d of the answer is none of the %d that were sent", edit.Index, len(all))
		}
		e, p := all[edit.Index], place{of[edit.Index], times[edit.Index]}
		if p.round > 0 {
			e = experience.Copy(&was[edit.Index], p.round*experience.Runs(groups[p.group]))
		}
		times[edit.Index]++
		if err := edit.apply(e); err != nil {
			return nil, fmt.Errorf("experience %s: %w", e.ID, err)
		}
		at, ok := places[p]
		if !ok {
			at = len(kept)
			places[p], kept = at, append(kept, nil)
		}
		kept[at] = append(kept[at], e)
	}
	return kept, nil
}

// apply writes what was changed into an experience.
func (c *Edit) apply(e *trinity.Experience) error {
	if err := c.applyReward(e); err != nil {
		return err
	}
	if c.Mask != nil {
		if err := c.applyMask(e); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		name string
		from *string
		to   *[]float32
	}{{"advantages", c.Advantages, &e.Advantages}, {"returns", c.Returns, &e.Returns}} {
		if s.from == nil {
			continue
		}
		values, err := Unpack(*s.from)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if *s.to, err = byToken(e, values); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if c.Truncated != nil {
		e.Truncated = *c.Truncated
	}
	if len(c.Metrics) > 0 {
		metrics := maps.Clone(e.Metrics) // siblings may share it
		if metrics == nil {
			metrics = map[string]float64{}
		}
		maps.Copy(metrics, c.Metrics)
		e.Metrics = metrics
	}
	if len(c.Info) > 0 {
		info := maps.Clone(e.Info)
		if info == nil {
			info = map[string]any{}
		}
		maps.Copy(info, c.Info)
		e.Info = info
	}
	return nil
}

func (c *Edit) applyReward(e *trinity.Experience) error {
	switch {
	case c.Reward == nil:
		return nil
	case string(c.Reward) == "null":
		e.Reward = trinity.InvalidReward(c.Reason)
		return nil
	}
	var v float64
	if err := json.Unmarshal(c.Reward, &v); err != nil {
		return fmt.Errorf("the reward is %.40s: want a number", c.Reward)
	}
	e.Reward.Value, e.Reward.Valid, e.Reward.Reason = v, true, ""
	return nil
}

// applyMask takes tokens away from what training learns.
func (c *Edit) applyMask(e *trinity.Experience) error {
	raw, err := base64.StdEncoding.DecodeString(*c.Mask)
	if err != nil || len(raw) != len(e.Mask)-e.PromptLen {
		return fmt.Errorf("action_mask: there are %d numbers, want %d, one for each token after the prompt", len(raw), len(e.Mask)-e.PromptLen)
	}
	mask := make([]bool, len(e.Mask))
	for i, b := range raw {
		t := e.PromptLen + i
		if mask[t] = b != 0; mask[t] && !e.Mask[t] {
			return fmt.Errorf("action_mask names token %d, which the policy did not sample", t)
		}
	}
	e.Mask = mask
	return nil
}

// byToken returns values of the tokens after the prompt as a slice by the token, 0 where nothing is learnt.
func byToken(e *trinity.Experience, values []float32) ([]float32, error) {
	if len(values) != len(e.Tokens)-e.PromptLen {
		return nil, fmt.Errorf("there are %d, want %d, one for each token after the prompt", len(values), len(e.Tokens)-e.PromptLen)
	}
	out := make([]float32, len(e.Tokens))
	for i, v := range values {
		t := e.PromptLen + i
		if !e.Mask[t] {
			continue
		}
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("that of token %d is %v, want a finite number", t, v)
		}
		out[t] = v
	}
	return out, nil
}
