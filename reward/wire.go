package reward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
)

// wireForm is the part of descriptions that specifies what a program or service reads and writes.
const wireForm = "A question is a JSON object: messages (the conversation, the reply last), prompt, response, truth, truncated, task, " +
	"eval, and row with all columns of the row. An answer is {\"reward\": 0.5, \"parts\": {\"format\": 1}}, in which either key may " +
	"be left out (the reward is then the sum of the parts), or only the number. null says that the reply cannot be scored, also as " +
	"{\"reward\": null, \"reason\": \"…\"}; {\"error\": \"…\"} says that scoring failed. Neither counts as reward 0. "

// maxAnswer bounds an answer, in bytes, and maxParts its parts.
const (
	maxAnswer = 1 << 20
	maxParts  = 64
)

// encode returns a reply with its task as one line of JSON.
func encode(in trinity.RewardInput) ([]byte, error) {
	messages, err := chat(in)
	if err != nil {
		return nil, err
	}
	q := struct {
		Task      string            `json:"task"`
		Eval      bool              `json:"eval"`
		Messages  []trinity.Message `json:"messages"`
		Prompt    string            `json:"prompt"`
		Response  string            `json:"response"`
		Truth     string            `json:"truth"`
		Truncated bool              `json:"truncated"`
		Row       map[string]any    `json:"row"`
	}{Messages: messages, Prompt: in.Prompt, Response: in.Response, Truth: in.Truth}
	if in.Task != nil {
		q.Task, q.Eval, q.Row = in.Task.ID, in.Task.Eval, in.Task.Row
	}
	q.Truncated = in.Experience != nil && in.Experience.Truncated == trinity.ResponseTruncated
	line, err := json.Marshal(q)
	return append(line, '\n'), err
}

// answer is an answer in the form of an object.
type answer struct {
	Reward json.RawMessage    `json:"reward"`
	Parts  map[string]float64 `json:"parts"`
	Reason string             `json:"reason"`
	Error  string             `json:"error"`
}

// decode returns the reward of an answer. wrong is an error about the form of the answer; failed is
// an error that the answer reports.
func decode(text []byte) (r trinity.Reward, failed, wrong error) {
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
	if _, ok := a.Parts["reward"]; ok || len(a.Parts) > maxParts {
		return r, nil, misunderstood(text, fmt.Errorf("want at most %d parts, none of them called reward", maxParts))
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
