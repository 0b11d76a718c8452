package trace

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// IsFrame reports whether a token is a marker of a message, which the template adds.
func (s *Spelled) IsFrame(t int) bool { return s.Special[t] && slices.Contains(frames, s.Texts[t]) }

var (
	// header is what a template writes before a message.
	header = regexp.MustCompile(`^\s*\w+\n`)
	// frames are the markers of a message; formats of calls of tools have other control tokens.
	frames = slices.Concat(opens, named, closes)
)

// Headless returns the text of a message without what the template writes before it.
func Headless(text string) string { return header.ReplaceAllString(text, "") }

// Said is a message of a chat, or of a sequence without the markers of a template what one side wrote: the prompt or
// the assistant.
type Said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Chat returns the messages that tokens are. decode returns the text of those at some places.
func (s *Spelled) Chat(decode func(places []int) string) (chat []Said) {
	role := func(t int) string {
		if s.Roles[t] == "think" {
			return "assistant"
		}
		return s.Roles[t]
	}
	for at, end := 0, 0; at < len(s.Roles); at = end {
		var said []int
		opened := false
		for end = at; end < len(s.Roles) && role(end) == role(at); end++ {
			if s.Special[end] && end > at && slices.Contains(opens, s.Texts[end]) {
				break // two messages of a role
			}
			opened = opened || s.IsFrame(end)
			if !s.IsFrame(end) && !s.IsBehind(end) {
				said = append(said, end)
			}
		}
		text := decode(said)
		if opened {
			text = Headless(text)
		}
		if text = strings.TrimSpace(text); text != "" && role(at) != "" {
			chat = append(chat, Said{role(at), text})
		}
	}
	return chat
}

// Messages returns the chat of a rollout of several turns; nil of another.
func (e *Evaluated) Messages() (chat []Said) {
	if json.Unmarshal([]byte(e.Chat), &chat) != nil {
		return nil
	}
	return chat
}

// Tokens is the tokenizer of those who write traces.
type Tokens interface {
	Text(token int32) string // as people read it
	Decode(tokens []int32, skipSpecial bool) string
}

// chatOf returns the messages of an experience as JSON.
func chatOf(e *trinity.Experience, of Tokens) JSON {
	texts := map[int32]string{}
	for _, token := range e.Tokens {
		if _, ok := texts[token]; !ok {
			texts[token] = of.Text(token)
		}
	}
	chat := Spell(e.Tokens, e.Mask, texts).Show(e.Images).Chat(func(places []int) string {
		ids := make([]int32, len(places))
		for i, t := range places {
			ids[i] = e.Tokens[t]
		}
		return of.Decode(ids, false)
	})
	text, err := json.Marshal(chat)
	if err != nil { // texts and roles always have a JSON
		return ""
	}
	return JSON(text)
}
