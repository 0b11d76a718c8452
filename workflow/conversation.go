package workflow

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

// conversationTurn is a turn of a row's column conversations.
type conversationTurn struct {
	From  string
	Value json.RawMessage
}

// text returns the words of a turn: a text as it is, anything else as JSON.
func (s conversationTurn) text() string {
	var text string
	if json.Unmarshal(s.Value, &text) == nil {
		return text
	}
	return string(s.Value)
}

// conversation returns the chat of a row about tools. It begins with the system prompt in the column
// raw_system, else the task's, if there is one. Without a column conversations it is the row's list of
// messages or its question.
func conversation(t *trinity.Task) (messages []trinity.Message, err error) {
	system, err := t.Text("raw_system")
	if err != nil {
		if system, err = t.System(); err != nil {
			return nil, err
		}
	}
	if list, ok := t.Field("conversations"); !ok || list == nil {
		return chatOf(t, system)
	}
	var turns []conversationTurn
	if err := column(t, "conversations", &turns); err != nil {
		return nil, err
	}
	if system != "" {
		messages = append(messages, trinity.Message{Role: "system", Content: system})
	}
	var open []trinity.ToolCall // calls that have no answer yet
	for i, turn := range turns {
		m := trinity.Message{Content: turn.text()}
		switch turn.From {
		case "human", "user":
			m.Role = "user"
		case "gpt", "assistant":
			m.Role = "assistant"
		case "observation", "tool":
			m.Role = "tool"
			if len(open) > 0 {
				m.ToolCallID, m.Name, open = open[0].ID, open[0].Name, open[1:]
			}
		case "system":
			m.Role = "system"
		case "function_call":
			m.Role, m.Content = "assistant", ""
			if open, err = callsOfTurn(turn, i); err == nil {
				m.ToolCalls, err = json.Marshal(open)
			}
			if err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("column \"conversations\": turn %d is from %q: want human, gpt, function_call or observation", i+1, turn.From)
		}
		messages = append(messages, m)
	}
	if len(turns) == 0 || messages[len(messages)-1].Role == "assistant" {
		return nil, errors.New("column \"conversations\": want turns that end with one of the user or of a tool")
	}
	return messages, nil
}

// callsOfTurn returns the calls of an earlier turn, which are one or a list.
func callsOfTurn(turn conversationTurn, number int) (calls []trinity.ToolCall, err error) {
	text := []byte(turn.text())
	var list []rowCall
	if json.Unmarshal(text, &list) != nil {
		list = make([]rowCall, 1)
		if err := json.Unmarshal(text, &list[0]); err != nil {
			return nil, fmt.Errorf("column \"conversations\": turn %d: want calls {name, arguments}: %w", number+1, err)
		}
	}
	for k, c := range list {
		call, err := c.call()
		if err != nil {
			return nil, fmt.Errorf("column \"conversations\": turn %d: %w", number+1, err)
		}
		call.ID = fmt.Sprintf("turn%02d%03d", number, k) // nine characters, as Mistral wants
		calls = append(calls, call)
	}
	return calls, nil
}
