package toolcall

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

func init() {
	register("mistral", mistral{}, func(template string) bool { return strings.Contains(template, mistralCalls) })
}

const (
	mistralCalls = "[TOOL_CALLS]"
	mistralID    = "[CALL_ID]"
	mistralArgs  = "[ARGS]"
)

// mistral reads the calls of Mistral's models: [TOOL_CALLS] and a JSON array of objects with name and
// arguments or, since tokenizer v11, [TOOL_CALLS]name[ARGS]{…} for each call, with [CALL_ID]id in
// between in some versions.
type mistral struct{}

func (mistral) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	m := marks{open: mistralCalls}
	return m.calls(text, tools, m.next, func(rest string) (calls []trinity.ToolCall, after string, err error) {
		read := mistralNamed
		if strings.HasPrefix(strings.TrimSpace(rest), "[") {
			read = mistralList
		}
		all, after, err := read(rest)
		for _, w := range all {
			call, err := w.call(rest)
			if err != nil {
				return nil, "", err
			}
			calls = append(calls, call)
		}
		return calls, after, err
	})
}

func (mistral) Settled(text string) string {
	return strings.TrimRight(before(text, mistralCalls), "\n")
}

// mistralList reads a JSON array of calls.
func mistralList(text string) (all []callObject, rest string, err error) {
	list, rest, err := firstJSON(text)
	if err == nil {
		err = json.Unmarshal(list, &all)
	}
	if err != nil || len(all) == 0 {
		return nil, "", fmt.Errorf("%s is followed by no JSON array of calls: %s", mistralCalls, brief(text))
	}
	for i := range all {
		all[i].ID = mistralFits(all[i].ID)
	}
	return all, rest, nil
}

// mistralNamed reads one call that is written as name, id and arguments.
func mistralNamed(text string) ([]callObject, string, error) {
	at := strings.Index(text, "{")
	if at < 0 {
		return nil, "", fmt.Errorf("%s is followed by no call: %s", mistralCalls, brief(text))
	}
	head, _ := strings.CutSuffix(strings.TrimSpace(text[:at]), mistralArgs)
	name, id, _ := strings.Cut(head, mistralID)
	given, rest, err := firstJSON(text[at:])
	if err != nil {
		return nil, "", fmt.Errorf("the arguments are no JSON object: %s", brief(text[at:]))
	}
	return []callObject{{ID: mistralFits(strings.TrimSpace(id)), Name: strings.TrimSpace(name), Arguments: given}}, rest, nil
}

// mistralFits returns an id if Mistral's templates take it: nine letters and digits. Else the chat
// gives the call an id.
func mistralFits(id string) string {
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }
	if len(id) != 9 || strings.ContainsFunc(id, other) {
		return ""
	}
	return id
}
