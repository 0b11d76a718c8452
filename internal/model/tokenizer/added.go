package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedMatcher finds added tokens in text: the leftmost match, and the longest of several at one
// place.
type addedMatcher struct {
	byText  map[string]*addedPattern // the first one of each text
	lengths [256][]int               // of the texts that begin with a byte, longest first
	empty   bool
}

type addedPattern struct {
	text string
	addedToken
}

func newAddedMatcher(patterns []addedPattern) *addedMatcher {
	m := &addedMatcher{byText: map[string]*addedPattern{}, empty: true}
	known := map[[2]int]bool{} // first bytes and lengths
	for _, p := range patterns {
		if p.text == "" {
			continue // an empty token matches nothing; it keeps its id
		}
		m.empty = false
		if m.byText[p.text] == nil {
			m.byText[p.text] = &p
		}
		if first := p.text[0]; !known[[2]int{int(first), len(p.text)}] {
			known[[2]int{int(first), len(p.text)}] = true
			m.lengths[first] = append(m.lengths[first], len(p.text))
		}
	}
	for _, list := range m.lengths {
		slices.SortFunc(list, func(a, b int) int { return b - a })
	}
	return m
}

// segment is a part of a text; if id ≥ 0 it is an added token.
type segment struct {
	text string
	at   int // offset in the text, in bytes
	id   int32
}

// split appends the segments of s, in which plain says which added tokens stay text.
func (m *addedMatcher) split(dst []segment, s string, plain plainer) []segment {
	if m.empty {
		return append(dst, segment{s, 0, -1})
	}
	done := 0 // end of the last segment
	for i := 0; i < len(s); {
		p, ok := m.longest(s[i:])
		if !ok {
			i++
			continue
		}
		start, stop := i, i+len(p.text)
		i = stop
		if plain != nil && plain(p, start, stop) || p.SingleWord && !aloneAt(s, start, stop) {
			continue
		}
		if p.LStrip {
			start = len(strings.TrimRightFunc(s[:start], unicode.IsSpace))
		}
		if p.RStrip {
			stop = len(s) - len(strings.TrimLeftFunc(s[stop:], unicode.IsSpace))
		}
		if done < start {
			dst = append(dst, segment{s[done:start], done, -1})
		}
		dst = append(dst, segment{id: p.ID})
		done = stop
	}
	if done < len(s) {
		dst = append(dst, segment{s[done:], done, -1})
	}
	return dst
}

func (m *addedMatcher) longest(s string) (*addedPattern, bool) {
	for _, n := range m.lengths[s[0]] {
		if n > len(s) {
			continue
		}
		if p := m.byText[s[:n]]; p != nil {
			return p, true
		}
	}
	return nil, false
}

// aloneAt reports whether no word character precedes or follows s[start:stop].
func aloneAt(s string, start, stop int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[stop:])
	return (start == 0 || !isWord(before)) && (stop == len(s) || !isWord(after))
}
