package trinity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// shown writes a chat: each message's parts, with images in brackets.
func shown(chat []trinity.Message) string {
	var all []string
	for _, m := range chat {
		parts, err := m.ContentParts()
		text := m.Role + ":"
		for _, p := range parts {
			if text += p.Text; p.Image != "" {
				text += "[" + p.Image + "]"
			}
		}
		if err != nil {
			text += err.Error()
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestTasksShowTheirImages(t *testing.T) {
	const user = `{"role": "user", "content": `
	for _, c := range []struct {
		row    string
		images []string
		want   string // a chat, or part of an error
	}{
		{`{"p": "a<image>b<image>"}`, []string{"1", "2"}, "user:a[1]b[2]"},
		{`{"p": "a"}`, []string{"1", "2"}, "user:[1][2]a"},
		{`{"p": "a<image>b"}`, []string{"1", "2", "3"}, "user:[1][2]a[3]b"},
		{`{"p": "a<image>b"}`, []string{}, "have <image> 1 times, and the row has 0 images"},
		{`{"p": "a<image>b"}`, nil, "user:a<image>b"}, // the run has not read them yet
		{`{"p": "a"}`, []string{}, "user:a"},
		{`{"p": "<image><image>"}`, []string{"1"}, "have <image> 2 times, and the row has 1 images"},
		{`{"p": [{"role": "system", "content": "s<image>"}, ` + user + `"a"}, {"role": "assistant", "content": "<image>"}, ` + user +
			`"b<image>"}]}`, []string{"1", "2"}, "system:s<image> user:[1]a assistant:<image> user:b[2]"},
		{`{"p": [` + user + `[{"type": "text", "text": "a"}, {"type": "image"}]}]}`, []string{"1"}, "user:a[1]"},
		{`{"p": [` + user + `[{"type": "image"}, {"type": "text", "text": "a"}]}]}`, []string{"1"}, "user:[1]a"},
		{`{"p": [{"role": "system", "content": "s"}]}`, []string{"1"}, "no text of the user"},
	} {
		task := trinity.Task{Format: trinity.TaskFormat{PromptKey: "p", ImageKey: "i"}, Images: c.images}
		if err := json.Unmarshal([]byte(c.row), &task.Row); err != nil {
			t.Fatal(err)
		}
		chat, err := task.Messages("")
		got := shown(chat)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s with %q: %s, want %s", c.row, c.images, got, c.want)
		}
		text, err := json.Marshal(chat)
		if err != nil || strings.Count(string(text), `"image":`) != strings.Count(got, "[") {
			t.Errorf("%s with %q: in JSON %s, %v", c.row, c.images, text, err)
		}
	}
}

// Who shows images of one chat changes no other: rollouts of a group share their task.
func TestShowImagesLeavesTheChat(t *testing.T) {
	extra := map[string]json.RawMessage{"content": json.RawMessage(`"x"`), "k": nil}
	chat := []trinity.Message{{Role: "user", Content: "a<image>", Extra: extra}}
	before := fmt.Sprint(chat)
	if _, err := trinity.ShowImages(chat, []string{"1"}); err != nil || fmt.Sprint(chat) != before {
		t.Errorf("%v, %v, want %s", chat, err, before)
	}
}
