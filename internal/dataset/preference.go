package dataset

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
)

// preference is a pair: the chosen answer, then the rejected one.
func (w writer) preference(row *trinity.Task) ([]*trinity.Experience, error) {
	chosen, err := w.answerAt(row, w.ChosenKey)
	if err != nil {
		return nil, err
	}
	rejected, err := w.answerAt(row, w.RejectedKey)
	if err != nil {
		return nil, err
	}
	prompt, err := w.promptOfPair(row, chosen, rejected)
	if err != nil {
		return nil, err
	}
	pair := make([]*trinity.Experience, 2)
	for i, answer := range [][]trinity.Message{chosen, rejected} {
		key := []string{w.ChosenKey, w.RejectedKey}[i]
		if pair[i], err = w.answer(row, prompt, answer); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		pair[i].Chosen = i == 0
	}
	if w.MarginKey != "" {
		margin, err := marginAt(row, w.MarginKey)
		if err != nil {
			return nil, err
		}
		pair[0].Info = map[string]any{trinity.MarginInfo: margin}
	}
	return pair, nil
}

// labelled is one answer with the label desirable or not.
func (w writer) labelled(row *trinity.Task) ([]*trinity.Experience, error) {
	prompt, answer, err := w.promptAndAnswer(row)
	if err != nil {
		return nil, err
	}
	label, err := labelAt(row, w.LabelKey)
	if err != nil {
		return nil, err
	}
	e, err := w.answer(row, prompt, answer)
	if err != nil {
		return nil, err
	}
	e.Chosen = label
	return []*trinity.Experience{e}, nil
}

// promptAndAnswer reads a single answer to a prompt.
func (w writer) promptAndAnswer(row *trinity.Task) (prompt, answer []trinity.Message, err error) {
	if prompt, err = w.promptAt(row); err != nil {
		return nil, nil, err
	}
	if _, ok := row.Field(w.ResponseKey); !ok && w.promptKey() == w.MessagesKey && w.PromptType != "plaintext" {
		_, last, err := turnsOf(prompt)
		if err != nil {
			return nil, nil, fmt.Errorf("no field %q, and %s is %w", w.ResponseKey, w.MessagesKey, err)
		}
		return prompt[:last], prompt[last : last+1], nil
	}
	answer, err = w.answerAt(row, w.ResponseKey)
	return prompt, answer, err
}

// promptOfPair returns the row's prompt, or else the common prefix of both answers.
func (w writer) promptOfPair(row *trinity.Task, chosen, rejected []trinity.Message) ([]trinity.Message, error) {
	if _, ok := row.Field(w.promptKey()); ok || w.PromptType != "" && w.PromptType != "messages" {
		return w.promptAt(row)
	}
	n := common(chosen, rejected)
	if n == len(chosen) || n == len(rejected) {
		n = min(len(chosen), len(rejected)) - 1 // the same answer twice: the last message is the answer
	}
	if n <= 0 {
		return nil, fmt.Errorf("no field %q, and %s and %s have no message in common that could be the prompt: set format.messages_key",
			w.promptKey(), w.ChosenKey, w.RejectedKey)
	}
	return chosen[:n], nil
}

// promptKey returns the key of the prompt.
func (w writer) promptKey() string {
	if w.PromptType == "" || w.PromptType == "messages" {
		return w.MessagesKey
	}
	return w.PromptKey
}

func (w writer) promptAt(row *trinity.Task) ([]trinity.Message, error) {
	if w.PromptType == "plaintext" {
		return userAt(row)
	}
	return messagesAt(row, w.promptKey())
}

// answerAt returns the answer at a key: text or messages.
func (w writer) answerAt(row *trinity.Task, key string) ([]trinity.Message, error) {
	v, err := fieldAt(row, key)
	if err != nil {
		return nil, err
	}
	_, isList := v.([]any)
	if isList && w.PromptType == "plaintext" {
		return nil, fmt.Errorf("%s holds a list, want text: set format.prompt_type: messages, and format.messages_key to the messages of "+
			"the prompt if the answers do not begin with it", key)
	}
	if w.PromptType != "plaintext" {
		if chat, err := row.ReadChat(key, v); isList || chat != nil || err != nil {
			return messagesAt(row, key)
		}
	}
	text, err := textAt(row, key)
	return []trinity.Message{{Role: "assistant", Content: text}}, err
}

// answer learns an answer to a prompt, which it may repeat.
func (w writer) answer(row *trinity.Task, prompt, answer []trinity.Message) (*trinity.Experience, error) {
	if n := common(prompt, answer); n == len(prompt) {
		answer = answer[n:]
	}
	learn, _, err := turnsOf(answer)
	if err != nil {
		return nil, err
	}
	e, err := w.write(row, slices.Concat(prompt, answer), slices.Concat(make([]bool, len(prompt)), learn))
	if errors.Is(err, trinity.ErrRewritesHistory) {
		err = fmt.Errorf("an answer of several turns cannot be one sequence: give the earlier ones weight 0: %w", err)
	}
	return e, err
}

// common returns the number of leading messages that a and b share.
func common(a, b []trinity.Message) int {
	n := 0
	for n < len(a) && n < len(b) && reflect.DeepEqual(a[n], b[n]) {
		n++
	}
	return n
}

// marginAt returns the number at a key.
func marginAt(row *trinity.Task, key string) (float64, error) {
	if _, err := fieldAt(row, key); err != nil {
		return 0, err
	}
	text, _ := row.Text(key) // "" for null
	margin, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(margin) || math.IsInf(margin, 0) {
		return 0, fmt.Errorf("%s holds %.40q, want a number", key, text)
	}
	return margin, nil
}

// labelAt returns the label at a key: true or false, 1 or 0, or one of these as text.
func labelAt(row *trinity.Task, key string) (bool, error) {
	if _, err := fieldAt(row, key); err != nil {
		return false, err
	}
	text, _ := row.Text(key) // "" for null
	switch strings.ToLower(text) {
	case "true", "1", "1.0":
		return true, nil
	case "false", "0", "0.0":
		return false, nil
	}
	return false, fmt.Errorf("%s holds %.40q, want true or false, or 1 or 0", key, text)
}
