package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// demonstration returns an experience that learns what the assistant says in a chat, or several if the
// chat template writes earlier turns otherwise: each turn then has the history that its prompt has.
func (w writer) demonstration(row *trinity.Task) ([]*trinity.Experience, error) {
	chat, err := w.chat(row)
	if err != nil {
		return nil, err
	}
	learn, err := w.learned(chat)
	if err != nil {
		return nil, err
	}
	e, err := w.write(row, chat, learn)
	if !errors.Is(err, trinity.ErrRewritesHistory) {
		return []*trinity.Experience{e}, err
	}
	var turns []*trinity.Experience
	for i := range chat {
		if !learn[i] {
			continue
		}
		only := make([]bool, len(chat))
		only[i] = true
		if e, err = w.write(row, chat, only); err != nil {
			return nil, err
		}
		e.ID.Turn = len(turns)
		turns = append(turns, e)
	}
	return turns, nil
}

// learned returns which messages of a demonstration training learns: the assistant's last, or all its
// messages, without those of weight 0.
func (w writer) learned(chat []trinity.Message) ([]bool, error) {
	learn, last, err := turnsOf(chat)
	if err != nil {
		return nil, err
	}
	if w.AllTurns {
		if !slices.Contains(learn, true) {
			return nil, errors.New("every message of the assistant has weight 0, so there is nothing to learn")
		}
		return learn, nil
	}
	for i := range chat[:last] {
		if _, weighed := chat[i].Extra[weightKey]; learn[i] && weighed {
			return nil, fmt.Errorf("messages[%d] has weight 1, but only the assistant's last message is learnt: "+
				"set format.enable_concatenated_multi_turn: true", i)
		}
		learn[i] = false
	}
	if !learn[last] {
		return nil, errors.New("the assistant's last message has weight 0, and it is the only one that is learnt: " +
			"set format.enable_concatenated_multi_turn: true to learn the others")
	}
	return learn, nil
}

// weightKey is the key of a message that says whether training learns it: 0 or 1.
const weightKey = "weight"

// turnsOf returns which messages of a chat training may learn, and the assistant's last.
func turnsOf(chat []trinity.Message) (learn []bool, last int, err error) {
	learn, last = make([]bool, len(chat)), -1
	for i, m := range chat {
		weight, weighed := 1.0, false
		if raw, ok := m.Extra[weightKey]; ok {
			weighed = true
			if json.Unmarshal(raw, &weight) != nil || weight != 0 && weight != 1 {
				return nil, 0, fmt.Errorf("messages[%d] has the weight %.40s: want 0 for a message that is not learnt, or 1", i, raw)
			}
		}
		if m.Role == "assistant" {
			learn[i], last = weight != 0, i
		} else if weighed && weight != 0 {
			return nil, 0, fmt.Errorf("messages[%d], of the %s, has weight 1, but training learns what the assistant says: remove it",
				i, m.Role)
		}
	}
	if last < 0 {
		err = errors.New("a chat without a message of the assistant, which is what is learnt")
	}
	return learn, last, err
}

// chat returns the whole chat of a demonstration.
func (w writer) chat(row *trinity.Task) ([]trinity.Message, error) {
	switch w.PromptType {
	case "plaintext":
		prompt, err := userAt(row)
		if err != nil {
			return nil, err
		}
		if v, _ := row.Field(w.ResponseKey); kindOfValue(v) == "a list" { // JSON text may be what the model learns to write
			if response, err := row.ReadChat(w.ResponseKey, v); response != nil || err != nil {
				return append(prompt, response...), err
			}
		}
		response, err := textAt(row, w.ResponseKey)
		return append(prompt, trinity.Message{Role: "assistant", Content: response}), err
	case "chatpair":
		prompt, err := messagesAt(row, w.PromptKey)
		if err != nil {
			return nil, err
		}
		response, err := messagesAt(row, w.ResponseKey)
		return append(prompt, response...), err
	}
	return messagesAt(row, w.MessagesKey)
}

// userAt returns a chat with the row's plain prompt as the user's message, or the row's list of
// messages in place of a text, as [trinity.Task.Messages] reads it.
func userAt(row *trinity.Task) ([]trinity.Message, error) {
	if v, _ := row.Field(row.Format.PromptKey); row.Format.PromptTemplate == "" {
		if chat, err := row.ReadChat(row.Format.PromptKey, v); chat != nil || err != nil {
			return chat, err
		}
	}
	text, err := promptOf(row)
	return []trinity.Message{{Role: "user", Content: text}}, err
}

// write renders a chat. Training learns the marked messages.
func (w writer) write(row *trinity.Task, chat []trinity.Message, learn []bool) (*trinity.Experience, error) {
	system, err := row.System()
	if err != nil {
		return nil, err
	}
	response := chat[lastOf(learn)].Content
	if images, ok := row.Field(w.ImageKey); ok {
		digests, err := digestsOf(images)
		if err == nil {
			chat, err = trinity.ShowImages(chat, digests)
		}
		if err != nil {
			return nil, err
		}
	}
	if system != "" && chat[0].Role != "system" {
		chat, learn = append([]trinity.Message{{Role: "system", Content: system}}, chat...), append([]bool{false}, learn...)
	}
	tools, err := row.Tools()
	if err != nil {
		return nil, err
	}
	e := &trinity.Experience{Response: response}
	if e.Tokens, e.Mask, e.Images, err = renderTraining(w.renderer, chat, tools, learn); err != nil {
		return nil, err
	}
	if e.PromptLen = promptLen(e.Mask); e.PromptLen == len(e.Tokens) {
		return nil, errors.New("the chat has no token to learn: its last message of the assistant is empty, or the chat template " +
			"does not write it as a reply")
	}
	return e, e.Check()
}

// lastOf returns the index of the last message that is learned.
func lastOf(learn []bool) int {
	for n := len(learn) - 1; n > 0; n-- {
		if learn[n] {
			return n
		}
	}
	return 0
}

// promptLen returns the number of tokens before the first that training learns.
func promptLen(mask []bool) int {
	for i, m := range mask {
		if m {
			return i
		}
	}
	return len(mask)
}
