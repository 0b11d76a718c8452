package tokenizer

// Decode returns the text of ids, without special tokens if skipSpecial is set. Ids outside the
// vocabulary have no text; bytes that form no code point become U+FFFD. Decode does not remove
// spaces before punctuation, because that would change the model's text.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.Stream(skipSpecial)
	for _, id := range ids {
		s.feed(id)
	}
	return s.Flush()
}

// Stream decodes ids one at a time. Only one goroutine may use it.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	first       stage
	out         textBuffer
}

// Stream returns a decoder for ids that arrive one at a time. Its pieces, joined, equal Decode of
// the same ids.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	s := &Stream{tokenizer: t, skipSpecial: skipSpecial}
	s.first = t.decoder.start(&s.out)
	return s
}

// Push returns the text that no later id can change: whole code points, possibly none. A run of
// byte tokens (byte fallback) is certain only when another token ends it.
func (s *Stream) Push(id int32) string {
	s.feed(id)
	return s.out.take()
}

// Flush returns the rest of the text and ends the stream. A later Push begins a new text.
func (s *Stream) Flush() string {
	s.first.flush()
	text := s.out.take()
	s.first = s.tokenizer.decoder.start(&s.out)
	return text
}

func (s *Stream) feed(id int32) {
	t := s.tokenizer
	if !t.has(id) || s.skipSpecial && t.special[id] {
		return
	}
	s.first.push(t.tokens[id])
}

// textBuffer is the last stage.
type textBuffer struct{ text []byte }

func (b *textBuffer) push(fragment string) { b.text = append(b.text, fragment...) }
func (b *textBuffer) flush()               {}

func (b *textBuffer) take() string {
	text := string(b.text)
	b.text = b.text[:0]
	return text
}
