package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bytes returns what a token adds to a text that has begun, to the byte: a token may be a part of a
// character. It returns "" for an id without a token. isSpecial says that people do not see the token;
// its bytes are then its name.
func (t *Tokenizer) Bytes(id int32) (text string, isSpecial bool) {
	token := t.Token(id)
	switch {
	case token == "" || t.special[id]:
		return token, token != ""
	case t.decoder.byteLevel:
		if text, ok := bytesOf(token); ok {
			return text, false
		}
		return token, false
	case t.decoder.byteFallback && len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>':
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return string([]byte{byte(b)}), false
		}
	}
	before := t.plainToken()
	return strings.TrimPrefix(t.Decode([]int32{before, id}, false), t.Decode([]int32{before}, false)), false
}

// plainToken returns a token of one letter, or another one that decodes to text; it stands before a
// token whose text is wanted, because decoders treat the first token of a text otherwise.
func (t *Tokenizer) plainToken() int32 {
	for c := 'a'; c <= 'z'; c++ {
		if id, ok := t.ids[string(c)]; ok && !t.special[id] {
			return id
		}
	}
	for id, token := range t.tokens {
		id := int32(id)
		if token != "" && token[0] < utf8.RuneSelf && !t.special[id] && t.Decode([]int32{id}, false) != "" {
			return id
		}
	}
	return -1
}

// StripsFirst reports whether decoding drops the space with which the first token of a text begins, as
// SentencePiece does.
func (t *Tokenizer) StripsFirst() bool {
	for id := range t.tokens {
		text, isSpecial := t.Bytes(int32(id))
		if !isSpecial && len(text) > 1 && text[0] == ' ' && text[1] != ' ' {
			return !strings.HasPrefix(t.Decode([]int32{int32(id)}, false), " ")
		}
	}
	return false
}
