package reward

import (
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/score"
)

// wireForm is the part of descriptions that specifies what a program or service reads and writes.
const wireForm = "A question is a JSON object: messages (the conversation, the reply last), prompt, response, opening (<think> if the " +
	"prompt ends with it), truth, truncated, task, eval, and row with all columns of the row. An answer is " +
	"{\"reward\": 0.5, \"parts\": {\"format\": 1}}, in which either key may " +
	"be left out (the reward is then the sum of the parts), or only the number. null says that the reply cannot be scored, also as " +
	"{\"reward\": null, \"reason\": \"…\"}; {\"error\": \"…\"} says that scoring failed. Neither counts as reward 0. "

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
		Opening   string            `json:"opening,omitempty"`
		Truth     string            `json:"truth"`
		Truncated bool              `json:"truncated"`
		Row       map[string]any    `json:"row"`
	}{Messages: messages, Prompt: in.Prompt, Response: in.Response, Opening: in.Opening, Truth: in.Truth}
	if in.Task != nil {
		q.Task, q.Eval, q.Row = in.Task.ID, in.Task.Eval, in.Task.Row
	}
	q.Truncated = in.Experience != nil && in.Experience.Truncated == trinity.ResponseTruncated
	line, err := json.Marshal(q)
	return append(line, '\n'), err
}

// answerOf reads what somebody answers to a question.
func answerOf(who string, text []byte) (trinity.Reward, error) {
	r, failed, wrong := score.Decode(text)
	switch {
	case failed != nil:
		return r, fmt.Errorf("%s: %w", who, failed)
	case wrong != nil:
		return r, fmt.Errorf("%s %w", who, wrong)
	}
	return r, nil
}
