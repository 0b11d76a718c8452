package dataset

import (
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
)

// Format says how rows become training data.
type Format struct {
	trinity.TaskFormat
	PromptType string // "messages", "plaintext" or "chatpair"; "" means messages
	AllTurns   bool   // learn from every turn of the assistant, not only the last
}

// RowFormatter turns a row into an experience without an ID.
type RowFormatter func(row map[string]any) (*trinity.Experience, error)

// Formatter returns the formatter of a schema.
//
// Schema sft learns what an assistant says in a chat that the renderer writes. By f.PromptType the chat is
//   - messages: the list at MessagesKey, with the tools at ToolsKey;
//   - plaintext: the text at PromptKey asked by the user and that at ResponseKey answered;
//   - chatpair: the messages at PromptKey followed by those at ResponseKey.
//
// A system prompt, the row's own or that of the format, opens a chat that has none. Schema cpt learns every token of the text at PromptKey but
// the first.
func Formatter(schema string, f Format, r trinity.Renderer) (RowFormatter, error) {
	switch schema {
	case "sft":
		chat, err := chatReader(f)
		if err != nil {
			return nil, err
		}
		return func(row map[string]any) (*trinity.Experience, error) { return demonstration(row, chat, f, r) }, nil
	case "cpt":
		if f.PromptType != "plaintext" {
			return nil, fmt.Errorf("schema cpt reads plain text: set format.prompt_type: plaintext (it is %q)", f.PromptType)
		}
		return func(row map[string]any) (*trinity.Experience, error) { return plainText(row, f, r) }, nil
	}
	return nil, fmt.Errorf("no formatter of rows for schema %q: there are sft and cpt", schema)
}

// chatReader returns how a row is read as a chat.
func chatReader(f Format) (func(*trinity.Task) ([]trinity.Message, error), error) {
	switch f.PromptType {
	case "", "messages":
		return func(row *trinity.Task) ([]trinity.Message, error) { return messagesAt(row, f.MessagesKey) }, nil
	case "plaintext":
		return readPlain, nil
	case "chatpair":
		return func(row *trinity.Task) ([]trinity.Message, error) {
			prompt, err := messagesAt(row, f.PromptKey)
			if err != nil {
				return nil, err
			}
			response, err := messagesAt(row, f.ResponseKey)
			return append(prompt, response...), err
		}, nil
	}
	return nil, fmt.Errorf("format.prompt_type %q: want messages, plaintext or chatpair", f.PromptType)
}

func readPlain(row *trinity.Task) ([]trinity.Message, error) {
	prompt, err := textAt(row, row.Format.PromptKey)
	if err != nil {
		return nil, err
	}
	response, err := textAt(row, row.Format.ResponseKey)
	return []trinity.Message{{Role: "user", Content: prompt}, {Role: "assistant", Content: response}}, err
}

// demonstration renders one chat and masks what is learnt.
func demonstration(row map[string]any, read func(*trinity.Task) ([]trinity.Message, error), f Format, r trinity.Renderer) (*trinity.Experience, error) {
	task := &trinity.Task{Row: row, Format: f.TaskFormat}
	chat, err := read(task)
	if err != nil {
		return nil, err
	}
	last := len(chat) - 1
	for last >= 0 && chat[last].Role != "assistant" {
		last--
	}
	if last < 0 {
		return nil, errors.New("a chat without a message of the assistant, which is what is learnt")
	}
	chat = chat[:last+1] // nothing is learnt from what follows
	if system := task.System(); system != "" && chat[0].Role != "system" {
		chat = append([]trinity.Message{{Role: "system", Content: system}}, chat...)
	}
	tools, err := toolsAt(task)
	if err != nil {
		return nil, err
	}
	tokens, mask, err := r.RenderTraining(chat, tools)
	if err != nil {
		return nil, err
	}
	if !f.AllTurns && len(chat) > 1 {
		prompt, err := r.Render(chat[:len(chat)-1], tools, true)
		if err != nil {
			return nil, err
		}
		clear(mask[:commonPrefix(prompt, tokens)])
	}
	e := &trinity.Experience{Tokens: tokens, Mask: mask, PromptLen: promptLen(mask), Response: chat[len(chat)-1].Content}
	if e.PromptLen == len(tokens) {
		return nil, errors.New("the chat has no token to learn: its last message of the assistant is empty, or the chat template does not write it as a reply")
	}
	return e, e.Check()
}

// plainText learns all of a text. Its first token has no predecessor.
func plainText(row map[string]any, f Format, r trinity.Renderer) (*trinity.Experience, error) {
	text, err := textAt(&trinity.Task{Row: row}, f.PromptKey)
	if err != nil {
		return nil, err
	}
	tokens := r.Encode(text)
	if len(tokens) < 2 {
		return nil, fmt.Errorf("%s has %d tokens, want at least 2", f.PromptKey, len(tokens))
	}
	mask := make([]bool, len(tokens))
	for i := range mask {
		mask[i] = i > 0
	}
	return &trinity.Experience{Tokens: tokens, Mask: mask, PromptLen: 1}, nil
}

// promptLen counts the tokens before the first that is learnt.
func promptLen(mask []bool) int {
	for i, m := range mask {
		if m {
			return i
		}
	}
	return len(mask)
}

// commonPrefix is how many tokens a and b share at their beginning.
func commonPrefix(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
