package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// bpe is byte-pair encoding (Sennrich et al. 2016). It splits a word into symbols and merges the
// pair of neighbours with the lowest rank, leftmost first, until no pair has a rank. Symbols are
// bytes (GPT-2) or code points, with <0xNN> tokens for code points that the vocabulary lacks
// (SentencePiece with byte fallback).
type bpe struct {
	byteLevel bool
	byBytes   bool             // byte-level: each byte has a token, or bpe drops it
	byteIDs   [256]int32       // the token of a byte if byBytes, else its <0xNN> token; -1 if there is none
	vocab     map[string]int32 // tokens as the file spells them
	whole     map[string]int32 // words that are one token without any merge; nil unless ignore_merges
	merges    map[pair]merge
	unk       int32 // -1 if none: bpe drops text without a token
	fuseUnk   bool
	fallback  bool
	cache     *wordCache
}

type pair struct{ left, right int32 }

type merge struct{ rank, id int32 }

func newBPE(d *modelDefinition, byteLevel bool) (*bpe, error) {
	if d.Dropout != nil && *d.Dropout != 0 {
		return nil, fmt.Errorf("model.dropout is %g; only 0 is supported: ids must not be random", *d.Dropout)
	}
	for key, affix := range map[string]*string{"continuing_subword_prefix": d.ContinuingSubwordPrefix,
		"end_of_word_suffix": d.EndOfWordSuffix} {
		if affix != nil && *affix != "" {
			return nil, fmt.Errorf("model.%s is %q; only \"\" is supported", key, *affix)
		}
	}
	m := &bpe{byteLevel: byteLevel, vocab: d.Vocab, unk: -1, fuseUnk: d.FuseUnk, fallback: d.ByteFallback, cache: newWordCache()}
	if d.UnkToken != nil {
		id, ok := d.Vocab[*d.UnkToken]
		if !ok {
			return nil, fmt.Errorf("model.unk_token %q is not in model.vocab", *d.UnkToken)
		}
		m.unk = id
	}
	m.findBytes()
	if d.IgnoreMerges {
		m.whole = m.wholeWords()
	}
	return m, m.addMerges(d.Merges)
}

// findBytes fills byteIDs. For a byte without a token in the byte alphabet, byte_fallback and
// unk_token apply to its code point.
func (m *bpe) findBytes() {
	missing := m.takeByteIDs(func(b int) string { return string(byteToRune[b]) })
	if m.byBytes = m.byteLevel && (missing == 0 || !m.fallback && m.unk < 0); !m.byBytes {
		m.takeByteIDs(func(b int) string { return fmt.Sprintf("<0x%02X>", b) })
	}
}

// takeByteIDs looks up the tokens of all bytes and returns the number of bytes without a token.
func (m *bpe) takeByteIDs(name func(b int) string) (missing int) {
	for b := range 256 {
		id, ok := m.vocab[name(b)]
		if !ok {
			id = -1
			missing++
		}
		m.byteIDs[b] = id
	}
	return missing
}

// wholeWords returns the vocabulary, keyed by the text of a word after pre-tokenizing.
func (m *bpe) wholeWords() map[string]int32 {
	if !m.byteLevel {
		return m.vocab
	}
	words := make(map[string]int32, len(m.vocab))
	for token, id := range m.vocab {
		if word, ok := bytesOf(token); ok {
			words[word] = id
		}
	}
	return words
}

func (m *bpe) addMerges(list mergeList) error {
	m.merges = make(map[pair]merge, len(list))
	var joined []byte
	for rank, parts := range list {
		left, okLeft := m.vocab[parts[0]]
		right, okRight := m.vocab[parts[1]]
		joined = append(append(joined[:0], parts[0]...), parts[1]...)
		id, okJoined := m.vocab[string(joined)]
		if !okLeft || !okRight || !okJoined {
			return fmt.Errorf("model.merges[%d]: %q, %q or %q is not in model.vocab", rank, parts[0], parts[1], joined)
		}
		m.merges[pair{left, right}] = merge{int32(rank), id}
	}
	return nil
}

// encode appends the ids of one pre-tokenized word.
func (m *bpe) encode(dst []int32, word string) []int32 {
	if id, ok := m.whole[word]; ok {
		return append(dst, id)
	}
	cacheable := len(word) <= cacheLongest
	if cacheable {
		if ids, ok := m.cache.get(word); ok {
			return append(dst, ids...)
		}
	}
	start := len(dst)
	if dst = m.symbols(dst, word); len(dst)-start <= scanLongest {
		dst = dst[:start+m.mergeShort(dst[start:])]
	} else {
		dst = dst[:start+m.mergeLong(dst[start:])]
	}
	if cacheable {
		m.cache.put(word, dst[start:])
	}
	return dst
}

// symbols appends the tokens of the word before any merge.
func (m *bpe) symbols(dst []int32, word string) []int32 {
	if m.byBytes {
		for i := range len(word) {
			if id := m.byteIDs[word[i]]; id >= 0 {
				dst = append(dst, id)
			}
		}
		return dst
	}
	if m.byteLevel {
		word = alphabetOf(word)
	}
	unknown := false // append an unk token after the byte tokens, as the reference does
	for i, n := 0, 0; i < len(word); i += n {
		_, n = utf8.DecodeRuneInString(word[i:])
		if id, ok := m.vocab[word[i:i+n]]; ok {
			if unknown {
				dst, unknown = append(dst, m.unk), false
			}
			dst = append(dst, id)
		} else if m.hasBytes(word[i : i+n]) {
			for k := i; k < i+n; k++ {
				dst = append(dst, m.byteIDs[word[k]])
			}
		} else if m.unk >= 0 {
			if unknown && !m.fuseUnk {
				dst = append(dst, m.unk)
			}
			unknown = true
		}
	}
	if unknown {
		dst = append(dst, m.unk)
	}
	return dst
}

func (m *bpe) hasBytes(s string) bool {
	for i := range len(s) {
		if m.byteIDs[s[i]] < 0 {
			return false
		}
	}
	return m.fallback
}
