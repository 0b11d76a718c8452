package tokenizer

import "strings"

// Text returns the text of one token, as people read it. A token that is a part of a character has the
// text that the vocabulary gives it.
func (t *Tokenizer) Text(id int32) string {
	token := t.Token(id)
	text := t.Decode([]int32{id}, false)
	switch {
	case text == "" || strings.ContainsRune(text, '\uFFFD'):
		return token
	case strings.HasPrefix(token, "\u2581") && !strings.HasPrefix(text, " "): // at the start of a text, decoders drop this space
		return " " + text
	}
	return text
}
