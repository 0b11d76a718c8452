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
	byFirst [256][]addedPattern // longest first
	empty   bool
}

type addedPattern struct {
	text string
	addedToken
}

func newAddedMatcher(patterns []addedPattern) *addedMatcher {
	m := &addedMatcher{empty: true}
	for _, p := range patterns {
		if p.text == "" {
			continue // an empty token matches nothing; it keeps its id
		}
		m.byFirst[p.text[0]] = append(m.byFirst[p.text[0]], p)
		m.empty = false
	}
	for _, list := range m.byFirst {
		slices.SortStableFunc(list, func(a, b addedPattern) int { return len(b.text) - len(a.text) })
	}
	return m
}

// segment is a part of a text; if id ≥ 0 it is an added token.
type segment struct {
	text string
	at   int // offset in the text, in bytes
	id   int32
}

// split appends the segments of s. If ordinary is set, special tokens stay text.
func (m *addedMatcher) split(dst []segment, s string, ordinary bool) []segment {
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
		if ordinary && p.Special || p.SingleWord && !aloneAt(s, start, stop) {
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
	list := m.byFirst[s[0]]
	for k := range list {
		if strings.HasPrefix(s, list[k].text) {
			return &list[k], true
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
