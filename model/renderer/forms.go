package renderer

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity/model/renderer/internal/jinja"
)

// forms are the forms in which a chat template reads what a message may have in several. New finds them
// by rendering small chats, because templates say nothing about it.
type forms struct {
	parts map[string]contentForm // by role; a role that the template's chats cannot show has the user's
	// thinkingPart says that the template reads the reasoning as a part of the content with the type
	// thinking, and under no key of its own.
	thinkingPart bool
	// textArguments says that the template writes arguments of a call that are text as they are. It has
	// then no use for an object if mapArguments is false.
	textArguments, mapArguments bool
	nullCalls                   bool   // it writes calls if the content is null, and none if it is ""
	null, absent                string // the JSON in place of a content that is null, or that is not there; "" for none
}

// contentForm is the form in which a template reads the content of a role.
type contentForm int

const (
	contentText   contentForm = iota // a text; parts would vanish, or appear as Python writes lists
	contentEither                    // a text or parts
	contentParts                     // parts; a text would vanish
)

// Texts that no template has. One that writes probeLeak writes a part as Python or JSON does.
const (
	probeText = "trinity-text-c1f0b7"
	probeLeak = "trinity-leak-c1f0b7"
	probeTool = "trinity-tool-c1f0b7"
)

// prober renders chats to see what the template of a renderer reads.
type prober struct{ of *Renderer }

// findForms renders chats to see which forms the template reads.
func findForms(of *Renderer) forms {
	r := prober{of}
	f := forms{parts: map[string]contentForm{}, null: "null"}
	if _, err := r.probe(`[{"role":"user","content":"question"}]`); err != nil {
		return f // a template of its own kind, or one that takes too long
	}
	const user = `{"role":"user","content":%s}`
	const call = `{"role":"assistant",%s"tool_calls":[{"id":"call00000","type":"function",` +
		`"function":{"name":"` + probeTool + `","arguments":%s}}]}`
	find := func(role, chat string) {
		if form, ok := r.contentForm(chat); ok {
			f.parts[role] = form
		}
	}
	find("user", `[`+user+`]`)
	question := fmt.Sprintf(user, `"question"`)
	if f.parts["user"] == contentParts {
		question = fmt.Sprintf(user, `[{"type":"text","text":"question"}]`)
	}
	find("system", `[{"role":"system","content":%s},`+question+`]`)
	find("assistant", `[`+question+`,{"role":"assistant","content":%s}]`)
	called := func(content, arguments string) string {
		if content != "" {
			content = `"content":` + content + `,`
		}
		return question + `,` + fmt.Sprintf(call, content, arguments)
	}
	calls := func(content, arguments string) bool { return r.shows(`[`+called(content, arguments)+`]`, probeTool) }
	arguments := `{}`
	if text := `"{}"`; !calls(`null`, arguments) && !calls(`""`, arguments) && (calls(`null`, text) || calls(`""`, text)) {
		arguments = text
	}
	f.nullCalls = !calls(`""`, arguments) && calls(`null`, arguments)
	content, other := `""`, `null`
	if f.nullCalls {
		content, other = other, content
	}
	f.absent = r.first(called, arguments, "", content, other)
	f.null = r.first(called, arguments, "null", `""`)
	find("tool", `[`+called(content, arguments)+`,{"role":"tool","name":"f","tool_call_id":"call00000","content":%s}]`)
	f.textArguments = r.shows(`[`+called(content, `"{\"`+probeText+`\": 1}"`)+`]`, `{"`+probeText+`": 1}`)
	f.mapArguments = r.shows(`[`+called(content, `{"`+probeText+`": 1}`)+`]`, probeText)

	thinks := `[` + question + `,{"role":"assistant","content":"answer","reasoning_content":"` + probeText + `","thinking":"` + probeText +
		`","reasoning":"` + probeText + `"}]`
	part := `[` + question + `,{"role":"assistant","content":[{"type":"thinking","thinking":"` + probeText + `","other":"` + probeLeak +
		`"},{"type":"text","text":"answer"}]}]`
	f.thinkingPart = !r.shows(thinks, probeText) && r.shows(part, probeText) && !r.shows(part, probeLeak)
	return f
}

// first returns the first of contents without an error of the template: some join null to a text.
func (r prober) first(called func(content, arguments string) string, arguments string, contents ...string) string {
	for _, content := range contents {
		if _, err := r.probe(`[` + called(content, arguments) + `]`); err == nil {
			return content
		}
	}
	return contents[0]
}

// contentForm returns the form in which the template reads the content in a chat with %s in its place. ok
// is false if the template refuses that chat in both forms.
func (r prober) contentForm(chat string) (form contentForm, ok bool) {
	inParts, partsErr := r.probe(fmt.Sprintf(chat, `[{"type":"text","text":"`+probeText+`","other":"`+probeLeak+`"}]`))
	inText, textErr := r.probe(fmt.Sprintf(chat, `"`+probeText+`"`))
	switch ok = partsErr == nil || textErr == nil; {
	case partsErr != nil || !strings.Contains(inParts, probeText) || strings.Contains(inParts, probeLeak):
		return contentText, ok
	case textErr == nil && strings.Contains(inText, probeText):
		return contentEither, ok
	}
	return contentParts, ok
}

// shows reports whether the template writes text somewhere in a chat.
func (r prober) shows(chat, text string) bool {
	out, err := r.probe(chat)
	return err == nil && strings.Contains(out, text)
}

// probe renders a chat given as JSON, without the checks that Render makes.
func (r prober) probe(messages string) (string, error) {
	list, err := jinja.FromJSON([]byte(messages))
	if err != nil {
		return "", err
	}
	c := &chat{r: r.of, messages: list.(*jinja.List).Items}
	out, err := c.render(len(c.messages), false)
	return out.Text, err
}
