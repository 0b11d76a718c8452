package finetune

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// Bounds of data.
const (
	maxLine = 16 << 20 // bytes
	minRows = 1
)

// rowError is what is wrong with data, by line and key.
type rowError struct {
	line int // from 1; 0 is the whole file
	text string
}

func (e *rowError) Error() string {
	if e.line == 0 {
		return e.text
	}
	return fmt.Sprintf("line %d: %s", e.line, e.text)
}

// checkRows checks all rows of a method's data, and returns their number. item checks a row as a grader reads it.
func checkRows(path, method string, item func(map[string]any) error) (rows int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	check := map[string]func(*row) error{
		wire.Supervised: (*row).demonstration, wire.DPO: (*row).preference, wire.Reinforcement: (*row).task,
	}[method]
	err = eachLine(f, func(line []byte) error {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		r, err := readRow(line)
		if err == nil {
			err = check(r)
		}
		if err == nil {
			err = item(r.all)
		}
		rows++
		return err
	})
	if err == nil && rows < minRows {
		err = &rowError{text: "the file has no rows: want JSON Lines, an object a line"}
	}
	return rows, err
}

// eachLine calls visit for each line of a file, which are bounded. An error gets the number of its line.
func eachLine(f io.Reader, visit func(line []byte) error) error {
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	number := 0
	for in.Scan() {
		number++
		err := visit(in.Bytes())
		if number == 1 && bytes.HasPrefix(in.Bytes(), []byte("\xef\xbb\xbf")) {
			err = errors.New("the file begins with a byte order mark: save it as UTF-8 without one")
		}
		if err != nil {
			return &rowError{number, err.Error()}
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return &rowError{number + 1, fmt.Sprintf("the line has more than %d MiB", maxLine>>20)}
	}
	return in.Err()
}

// row is a row of any method. Its keys are checked by the method.
type row struct {
	keys map[string]json.RawMessage
	all  map[string]any
}

func readRow(line []byte) (*row, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("the text is not UTF-8")
	}
	r := &row{}
	if err := json.Unmarshal(line, &r.all); err != nil || r.all == nil {
		return nil, fmt.Errorf("want a JSON object, got %.60q: %w", line, cmp.Or(err, errors.New("null")))
	}
	var err error
	r.keys, err = members(line)
	return r, err
}

// members returns the members of an object. It is an error if a key is there twice: programs differ in which one they read.
func members(object []byte) (map[string]json.RawMessage, error) {
	d, all := json.NewDecoder(bytes.NewReader(object)), map[string]json.RawMessage{}
	_, err := d.Token() // the brace
	for err == nil && d.More() {
		var key json.Token
		if key, err = d.Token(); err != nil {
			break
		}
		name, _ := key.(string)
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%.80q: the key is there twice", name)
		}
		var value json.RawMessage
		err = d.Decode(&value)
		all[name] = value
	}
	return all, err
}

// only returns an error if there are other keys than these.
func only(keys map[string]json.RawMessage, known ...string) error {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			return fmt.Errorf("%.80q: no such key, want %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

// demonstration checks a row of a supervised job.
func (r *row) demonstration() error {
	if _, old := r.keys["functions"]; old {
		return errors.New("functions: send tools, which took their place")
	}
	if err := only(r.keys, "messages", "tools", "parallel_tool_calls"); err != nil {
		return err
	}
	chat, err := messagesAt(r.keys, "messages")
	if err == nil && !slices.ContainsFunc(chat, func(m message) bool { return m.Role == "assistant" && m.learnt() }) {
		err = errors.New("messages: none of the assistant's is learnt, want one whose weight is not 0")
	}
	return err
}

// task checks a row of a reinforcement job. Its other keys are the grader's item.
func (r *row) task() error {
	chat, err := messagesAt(r.keys, "messages")
	if err == nil && !slices.Contains([]string{"user", "tool"}, chat[len(chat)-1].Role) {
		err = fmt.Errorf("messages[%d].role: the last message is the user's, or that of a tool, got %.40q", len(chat)-1, chat[len(chat)-1].Role)
	}
	return err
}

// preference checks a row of a DPO job.
func (r *row) preference() error {
	if err := only(r.keys, "input", "preferred_output", "non_preferred_output"); err != nil {
		return err
	}
	var input map[string]json.RawMessage
	if json.Unmarshal(r.keys["input"], &input) != nil || input == nil {
		return errors.New("input: want an object with messages")
	}
	if err := only(input, "messages", "tools", "parallel_tool_calls"); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if _, err := messagesAt(input, "messages"); err != nil {
		return fmt.Errorf("input.%w", err)
	}
	for _, key := range []string{"preferred_output", "non_preferred_output"} {
		chat, err := messagesAt(r.keys, key)
		if err != nil {
			return err
		}
		if chat[len(chat)-1].Role != "assistant" {
			return fmt.Errorf("%s[%d].role: the last message is the assistant's, got %.40q", key, len(chat)-1, chat[len(chat)-1].Role)
		}
	}
	if reflect.DeepEqual(r.all["preferred_output"], r.all["non_preferred_output"]) {
		return errors.New("non_preferred_output: it is the same as preferred_output, so that there is nothing to learn: leave the row out")
	}
	return nil
}

// message is what is checked of a message; the chat template reads the rest.
type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
	Weight    *float64        `json:"weight"`
}

func (m *message) learnt() bool { return m.Weight == nil || *m.Weight != 0 }

// messagesAt returns the chat at a key.
func messagesAt(keys map[string]json.RawMessage, key string) (chat []message, err error) {
	if json.Unmarshal(keys[key], &chat) != nil || len(chat) == 0 {
		return nil, fmt.Errorf("%s: want a list of messages", key)
	}
	for i, m := range chat {
		at := fmt.Sprintf("%s[%d]", key, i)
		if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role) {
			return nil, fmt.Errorf("%s.role: want system, user, assistant or tool, got %.40q", at, m.Role)
		}
		if m.Role == "developer" {
			return nil, fmt.Errorf("%s.role: chat templates have no developer: write system", at)
		}
		if m.Weight != nil && *m.Weight != 0 && *m.Weight != 1 {
			return nil, fmt.Errorf("%s.weight: want 0 or 1, got %g", at, *m.Weight)
		}
		if err := m.checkContent(); err != nil {
			return nil, fmt.Errorf("%s.%w", at, err)
		}
	}
	return chat, nil
}

func (m *message) checkContent() error {
	text, parts := "", []struct{ Type, Text string }{}
	isNull := len(m.Content) == 0 || string(m.Content) == "null"
	switch {
	case isNull && len(m.ToolCalls) > 0 && m.Role == "assistant":
	case !isNull && json.Unmarshal(m.Content, &text) == nil:
	case !isNull && json.Unmarshal(m.Content, &parts) == nil:
		for i, p := range parts {
			if p.Type != "text" {
				return fmt.Errorf("content[%d].type: models read text, got %.40q", i, p.Type)
			}
		}
	default:
		return errors.New("content: want a text")
	}
	return nil
}
