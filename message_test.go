package trinity

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestMessageContent(t *testing.T) {
	for text, want := range map[string]string{
		`{"role":"user","content":"a"}`: "a",
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`: "ab",
		`{"role":"assistant","content":null,"tool_calls":[]}`:                               "",
		`{"role":"assistant","tool_calls":[]}`:                                              "",
	} {
		var m Message
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.Content != want || m.Role == "" {
			t.Errorf("%s: got %+v, %v, want content %q", text, m, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"content":"a"}`:                                           `no "role"`,
		`{"role":"user","content":3}`:                               "number",
		`{"role":"user","content":[{"type":"image_url"}]}`:          `part of type "image_url"`,
		`{"role":"user","content":[{"type":"text"}]}`:               `no "text"`,
		`{"role":"user","content":["a"]}`:                           "no object with the keys",
		`{"role":3}`:                                                `"role" of a message is a number: want text`,
		`{"role":"a","thinking":true}`:                              `"thinking" of a message is a boolean: want text`,
		`{"role":"a","thinking":"x","reasoning_content":"y"}`:       "differs from its other reasoning",
		`{"role":"a","content":[{"type":"thinking","thinking":3}]}`: "has a number as its thinking: want text",
		`[1]`: "a message is a list: want an object",
	} {
		var m Message
		if err := json.Unmarshal([]byte(text), &m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A message keeps what it was read with: the form of its content, and keys of others.
func TestMessageKeepsItsForm(t *testing.T) {
	for _, c := range []struct{ text, content, reasoning, want string }{
		{`{"role":"user","content":"a < b"}`, "a < b", "", ""},
		{`{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}`, "", "", ""},
		{`{"role":"assistant","tool_calls":[]}`, "", "", ""},
		{`{"role":"assistant","content":""}`, "", "", ""},
		{`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "ab", "", ""},
		{`{"role":"assistant","content":"y","tool_plan":"p","weight":0}`, "y", "", ""},
		{`{"role":"assistant","content":"y","thinking":"hm"}`, "y", "hm", `{"role":"assistant","content":"y","reasoning_content":"hm"}`},
		{`{"role":"assistant","content":"y","reasoning":"hm","thinking":"hm","reasoning_content":"hm"}`, "y", "hm",
			`{"role":"assistant","content":"y","reasoning_content":"hm"}`},
		{`{"role":"assistant","content":"y","reasoning":null,"weight":null,"tool_calls":null,"name":null}`, "y", "",
			`{"role":"assistant","content":"y"}`},
		{`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"y"}]}`, "y", "hm",
			`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"y"}],"reasoning_content":"hm"}`},
		{`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, "", "hm",
			`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}],"reasoning_content":"hm"}`},
	} {
		var m, again Message
		if err := json.Unmarshal([]byte(c.text), &m); err != nil || m.Content != c.content || m.Reasoning != c.reasoning {
			t.Errorf("%s: %+v, %v, want content %q and reasoning %q", c.text, m, err, c.content, c.reasoning)
			continue
		}
		if c.want == "" {
			c.want = c.text
		}
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if err := e.Encode(m); err != nil || strings.TrimSpace(out.String()) != c.want {
			t.Errorf("%s: written as %s, %v, want %s", c.text, &out, err, c.want)
		}
		if err := json.Unmarshal(out.Bytes(), &again); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%s: read again as %+v, %v, want %+v", c.text, again, err, m)
		}
	}
}

// A message with images has its parts in the file, also with text that a workflow has put around its own.
func TestMessageWithImages(t *testing.T) {
	image := "sha256:" + strings.Repeat("0a", 32)
	const text = `{"type":"text","text":"a < b"}`
	written := `{"role":"user","content":[{"image":"` + image + `","type":"image"},{"text":"a < b","type":"text"},{"image":"` + image +
		`","type":"image"}]}`
	var m Message
	if err := json.Unmarshal([]byte(strings.ReplaceAll(written, `{"text":"a < b","type":"text"}`, text)), &m); err != nil {
		t.Fatal(err)
	}
	want := Message{Role: "user", Content: "a < b", Parts: []Part{{Image: image}, {Text: "a < b"}, {Image: image}}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, want %+v", m, want)
	}
	if out, err := marshalPlain(m); err != nil || string(out) != written {
		t.Errorf("written as %s, %v, want %s", out, err, written)
	}
	for content, want := range map[string][]Part{
		"a < b":    m.Parts,
		"a < b\nc": {{Image: image}, {Text: "a < b"}, {Image: image}, {Text: "\nc"}},
		"c a < b":  {{Text: "c "}, {Image: image}, {Text: "a < b"}, {Image: image}},
	} {
		m.Content = content
		var again Message
		out, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(out, &again)
		}
		if err != nil || !reflect.DeepEqual(again.Parts, want) || again.Content != content {
			t.Errorf("%q: got %+v, %v, want %+v", content, again, err, want)
		}
	}
	m.Content = "other"
	if out, err := json.Marshal(m); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("written as %s, %v, want an error", out, err)
	}
	for _, other := range []string{"", "sha256:" + strings.Repeat("0A", 32), "sha256:00", "../../etc/passwd"} {
		text := `{"role":"user","content":[{"type":"image","image":"` + other + `"}]}`
		if err := json.Unmarshal([]byte(text), &m); err == nil || !strings.Contains(err.Error(), `a part of type "image"`) {
			t.Errorf("%s: %v, want an error", text, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"text":"y"}],"weight":0,"reasoning":"hm"}`))
	f.Add([]byte(`{"role":"assistant","content":null,"tool_calls":[{"id":1}],"tool_plan":{"a":[1e400]},"name":"n"}`))
	f.Add([]byte(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","image":"sha256:` + strings.Repeat("0", 64) + `"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again Message
		if json.Unmarshal(data, &m) != nil {
			return
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &again); err != nil || again.Content != m.Content || again.Reasoning != m.Reasoning ||
			len(again.Extra) != len(m.Extra) || !reflect.DeepEqual(again.Parts, m.Parts) {
			t.Errorf("%q: %+v is read again from %s as %+v, %v", data, m, text, again, err)
		}
	})
}

// Text that is put before a message that is only an image comes before the image.
func TestPrepend(t *testing.T) {
	image := "sha256:" + strings.Repeat("0a", 32)
	m := Message{Role: "user", Parts: []Part{{Image: image}}}
	shared := m
	m.Prepend("look: ")
	m.Content += " well?"
	parts, err := m.ContentParts()
	if want := []Part{{Text: "look: "}, {Image: image}, {Text: " well?"}}; err != nil || !reflect.DeepEqual(parts, want) {
		t.Errorf("got %+v, %v, want %+v", parts, err, want)
	}
	if shared.Content != "" || len(shared.Parts) != 1 {
		t.Errorf("a copy became %+v", shared)
	}
	plain := Message{Role: "user", Content: "b"}
	if plain.Prepend("a"); plain.Content != "ab" || plain.Parts != nil {
		t.Errorf("a text became %+v", plain)
	}
}
