package tokenizer

// Encode returns the ids of text. Special tokens in the text become their ids; addSpecial adds the
// special tokens that the post-processor puts around a text (usually a BOS). Bytes that are not
// UTF-8 count as U+FFFD.
func (t *Tokenizer) Encode(text string, addSpecial bool) []int32 {
	ids := make([]int32, 0, len(text)/3+len(t.frame.before)+len(t.frame.after))
	if addSpecial {
		ids = append(ids, t.frame.before...)
	}
	ids = t.encode(ids, text, false)
	if addSpecial {
		ids = append(ids, t.frame.after...)
	}
	return ids
}

// EncodeOrdinary returns the ids of text with special tokens as plain text, so that a user's text
// cannot begin or end a turn. It still recognises added tokens that are not special, such as Qwen's
// <think>.
func (t *Tokenizer) EncodeOrdinary(text string) []int32 {
	return t.encode(make([]int32, 0, len(text)/3), text, true)
}

func (t *Tokenizer) encode(ids []int32, text string, ordinary bool) []int32 {
	text = validUTF8(text)
	if text == "" {
		return ids
	}
	s := t.scratch.Get().(*scratch)
	s.segments = t.beforeNormalizing.split(s.segments[:0], text, ordinary)
	for _, segment := range s.segments {
		if segment.id >= 0 {
			ids = append(ids, segment.id)
			continue
		}
		if t.normalize != nil {
			segment.text = t.normalize(segment.text)
		}
		ids = t.encodeNormalized(ids, segment, ordinary, s)
	}
	t.scratch.Put(s)
	return ids
}

func (t *Tokenizer) encodeNormalized(ids []int32, normalized segment, ordinary bool, s *scratch) []int32 {
	s.parts = t.afterNormalizing.split(s.parts[:0], normalized.text, ordinary)
	for _, part := range s.parts {
		if part.id >= 0 {
			ids = append(ids, part.id)
			continue
		}
		if part.text == "" {
			continue
		}
		first := normalized.at == 0 && part.at == 0
		s.words, s.spare = t.split.words(piece{part.text, first}, s.words, s.spare)
		for _, word := range s.words {
			ids = t.model.encode(ids, word.text)
		}
	}
	return ids
}
