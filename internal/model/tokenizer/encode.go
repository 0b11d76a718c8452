package tokenizer

import "slices"

// Encode returns the ids of text. Special tokens in the text become their ids; addSpecial adds the
// special tokens that the post-processor puts around a text (usually a BOS). Bytes that are not
// UTF-8 count as U+FFFD.
func (t *Tokenizer) Encode(text string, addSpecial bool) []int32 {
	ids := make([]int32, 0, len(text)/3+len(t.frame.before)+len(t.frame.after))
	if addSpecial {
		ids = append(ids, t.frame.before...)
	}
	ids = t.encode(ids, text, nil)
	if addSpecial {
		ids = append(ids, t.frame.after...)
	}
	return ids
}

// EncodeOrdinary returns the ids of text with special tokens as plain text, so that a user's text
// cannot begin or end a turn. It still recognises added tokens that are not special, such as Qwen's
// <think>.
func (t *Tokenizer) EncodeOrdinary(text string) []int32 {
	return t.encode(make([]int32, 0, len(text)/3), text, func(p *addedPattern, _, _ int) bool { return p.Special })
}

// EncodeExcept is Encode without the special tokens around a text, and with the added tokens that
// overlap one of the ranges [begin, end) of text, in bytes, as plain text. text is UTF-8.
func (t *Tokenizer) EncodeExcept(text string, ranges [][2]int) []int32 {
	return t.encode(make([]int32, 0, len(text)/3), text, func(_ *addedPattern, begin, end int) bool {
		return slices.ContainsFunc(ranges, func(r [2]int) bool { return begin < r[1] && r[0] < end })
	})
}

// plainer reports whether an added token in bytes begin to end of a text is plain text. nil says it of
// none.
type plainer func(p *addedPattern, begin, end int) bool

func (t *Tokenizer) encode(ids []int32, text string, plain plainer) []int32 {
	text = validUTF8(text)
	if text == "" {
		return ids
	}
	s := t.scratch.Get().(*scratch)
	s.segments = t.beforeNormalizing.split(s.segments[:0], text, plain)
	for _, segment := range s.segments {
		if segment.id >= 0 {
			ids = append(ids, segment.id)
			continue
		}
		inside := plain
		if plain != nil { // normalizing moves bytes, so the segment is asked for as a whole
			begin, end := segment.at, segment.at+len(segment.text)
			inside = func(p *addedPattern, _, _ int) bool { return plain(p, begin, end) }
		}
		if t.normalize != nil {
			segment.text = t.normalize(segment.text)
		}
		ids = t.encodeNormalized(ids, segment, inside, s)
	}
	t.scratch.Put(s)
	return ids
}

func (t *Tokenizer) encodeNormalized(ids []int32, normalized segment, plain plainer, s *scratch) []int32 {
	s.parts = t.afterNormalizing.split(s.parts[:0], normalized.text, plain)
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
