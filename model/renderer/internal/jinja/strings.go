package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// upper and lower are Python's full case mappings (one letter may become several).
func upper(s string) string {
	if ascii(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

func lower(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

func titleRune(c rune) string {
	if c < utf8.RuneSelf {
		return string(unicode.ToUpper(c))
	}
	return cases.Title(language.Und, cases.NoLower).String(string(c))
}

func capitalize(s string) string {
	if s == "" {
		return ""
	}
	c, n := utf8.DecodeRuneInString(s)
	return titleRune(c) + lower(s[n:])
}

func isCased(c rune) bool {
	return unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c) || unicode.Is(unicode.Other_Lowercase, c) ||
		unicode.Is(unicode.Other_Uppercase, c)
}

func isLowerRune(c rune) bool { return unicode.IsLower(c) || unicode.Is(unicode.Other_Lowercase, c) }

func isUpperRune(c rune) bool { return unicode.IsUpper(c) || unicode.Is(unicode.Other_Uppercase, c) }

// titleCase is Python's str.title: a cased letter after an uncased character begins a word.
func titleCase(s string) string {
	var b strings.Builder
	inWord := false
	for _, c := range s {
		if inWord {
			b.WriteString(lower(string(c)))
		} else {
			b.WriteString(titleRune(c))
		}
		inWord = isCased(c)
	}
	return b.String()
}

func swapCase(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case isUpperRune(c):
			b.WriteString(lower(string(c)))
		case isLowerRune(c):
			b.WriteString(upper(string(c)))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func isLower(s string) bool { return someCased(s, isLowerRune) }

func isUpper(s string) bool { return someCased(s, isUpperRune) }

// someCased reports whether s has cased characters and want accepts all of them.
func someCased(s string, want func(rune) bool) bool {
	found := false
	for _, c := range s {
		if !isCased(c) {
			continue
		}
		if !want(c) {
			return false
		}
		found = true
	}
	return found
}

func isTitle(s string) bool {
	found, inWord := false, false
	for _, c := range s {
		switch {
		case isUpperRune(c) || unicode.IsTitle(c):
			if inWord {
				return false
			}
			found, inWord = true, true
		case isLowerRune(c):
			if !inWord {
				return false
			}
		default:
			inWord = false
		}
	}
	return found
}

// all reports whether s is not empty and want accepts every character.
func all(s string, want func(rune) bool) bool {
	for _, c := range s {
		if !want(c) {
			return false
		}
	}
	return s != ""
}

func isLineBreak(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}

// splitLines is Python's str.splitlines.
func splitLines(s string, keepEnds bool) []string {
	var lines []string
	for s != "" {
		end := strings.IndexFunc(s, isLineBreak)
		if end < 0 {
			return append(lines, s)
		}
		_, n := utf8.DecodeRuneInString(s[end:])
		if strings.HasPrefix(s[end:], "\r\n") {
			n = 2
		}
		line := s[:end]
		if keepEnds {
			line = s[:end+n]
		}
		lines = append(lines, line)
		s = s[end+n:]
	}
	return lines
}

// split is Python's str.split and rsplit.
func split(s, by string, limit int64, fromRight bool) []string {
	limit = upTo(limit, s)
	if by == "" {
		panic(typeErrorf("empty separator"))
	}
	if !fromRight {
		return strings.SplitN(s, by, int(min(limit, int64(len(s))))+1)
	}
	var parts []string
	for ; limit > 0; limit-- {
		i := strings.LastIndex(s, by)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(by):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return parts
}

// upTo returns the limit of a split, which a negative one does not have.
func upTo(limit int64, s string) int64 {
	if limit < 0 {
		return int64(len(s)) + 1
	}
	return limit
}

// splitSpace splits at white space.
func splitSpace(s string, limit int64, fromRight bool) []string {
	limit = upTo(limit, s)
	parts := []string{}
	if fromRight {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
			i := strings.LastIndexFunc(s, isSpace)
			if limit == 0 || i < 0 {
				parts = append(parts, s)
				break
			}
			_, n := utf8.DecodeRuneInString(s[i:])
			parts, s = append(parts, s[i+n:]), s[:i]
			limit--
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		i := strings.IndexFunc(s, isSpace)
		if limit == 0 || i < 0 {
			return append(parts, s)
		}
		parts, s = append(parts, s[:i]), s[i:]
		limit--
	}
	return parts
}
