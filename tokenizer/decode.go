package tokenizer

// Decode returns the text of ids, without special tokens if skipSpecial. Ids that the vocabulary does not have give
// nothing, bytes that form no code point give U+FFFD. There is no clean-up of spaces before punctuation: it would change
// what the model wrote.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	s := t.Stream(skipSpecial)
	for _, id := range ids {
		s.feed(id)
	}
	return s.Flush()
}

// Stream decodes ids one at a time. It is for one goroutine.
type Stream struct {
	tokenizer   *Tokenizer
	skipSpecial bool
	first       stage
	out         textBuffer
}

// Stream returns a decoder whose pieces, joined, are what Decode returns for the same ids.
func (t *Tokenizer) Stream(skipSpecial bool) *Stream {
	s := &Stream{tokenizer: t, skipSpecial: skipSpecial}
	s.first = t.decoder.start(&s.out)
	return s
}

// Push returns the text that is certain once id is known: whole code points, possibly none. A byte-fallback run is
// certain only when a token that is no byte ends it.
func (s *Stream) Push(id int32) string {
	s.feed(id)
	return s.out.take()
}

// Flush returns the text still held back and ends the stream; a later Push begins a new text.
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
