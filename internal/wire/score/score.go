// Package score reads the rewards that programs and services give, in any language.
package score

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
)

// MaxAnswer bounds an answer, in bytes, and maxParts its parts.
const (
	MaxAnswer = 1 << 20
	maxParts  = 64
)

// partName matches the name of a part, which becomes the name of a metric.
var partName = regexp.MustCompile(`^\pL[\pL\pN_.-]{0,63}$`)

// answer is an answer in the form of an object.
type answer struct {
	Reward json.RawMessage    `json:"reward"`
	Parts  map[string]float64 `json:"parts"`
	Reason string             `json:"reason"`
	Error  string             `json:"error"`
}

// Decode returns the reward of an answer. wrong is an error about the form of the answer; failed is
// an error that the answer reports.
func Decode(text []byte) (r trinity.Reward, failed, wrong error) {
	a := answer{Reward: bytes.TrimSpace(text)}
	if bytes.HasPrefix(a.Reward, []byte("{")) {
		a.Reward = nil
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			return r, nil, misunderstood(text, err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return r, nil, misunderstood(text, errors.New("more than one value"))
		}
	}
	if err := CheckParts(a.Parts); err != nil {
		return r, nil, misunderstood(text, err)
	}
	switch {
	case a.Error != "":
		return r, errors.New(a.Error), nil
	case string(a.Reward) == "null" || a.Reward == nil && a.Parts == nil && a.Reason != "":
		if a.Reason == "" {
			a.Reason = "the reward is null"
		}
		return trinity.InvalidReward(a.Reason), nil, nil
	case a.Reward == nil && len(a.Parts) > 0:
		return trinity.NewReward(a.Parts), nil, nil
	}
	r = trinity.Reward{Valid: true, Parts: a.Parts}
	if err := json.Unmarshal(a.Reward, &r.Value); err != nil {
		return r, nil, misunderstood(text, err)
	}
	return r, nil, nil
}

// CheckParts returns an error unless the parts of a reward can become metrics.
func CheckParts(parts map[string]float64) error {
	if _, ok := parts["reward"]; ok || len(parts) > maxParts {
		return fmt.Errorf("want at most %d parts, none of them called reward", maxParts)
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("a part is %w", err)
		}
	}
	if math.IsInf(trinity.NewReward(parts).Value, 0) {
		return errors.New("the sum of the parts is too large a number")
	}
	return nil
}

// CheckName returns an error unless a name can be that of a part or a metric.
func CheckName(name string) error {
	if !partName.MatchString(name) {
		return fmt.Errorf("called %.70q: want a letter, then letters, digits, _, - and ., at most 64 in all", name)
	}
	return nil
}

// misunderstood describes an answer that is not of the form.
func misunderstood(text []byte, err error) error {
	const most = 80
	if len(text) > most {
		text = append(text[:most:most], "…"...)
	}
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("?"))
	}
	return fmt.Errorf(`answered %q: want {"reward": number, "parts": {…}}, a number or null: %w`, text, err)
}
