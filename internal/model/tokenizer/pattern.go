package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// pattern finds the matches of a Split or Replace. It is a literal, a hand-written scanner or a
// regular expression.
type pattern struct {
	literal string
	scan    scanner
	regexp  *regexp2.Regexp
}

// span is a range of bytes in a text; it may be a match of the pattern or not.
type span struct {
	start, end int
	match      bool
}

func newPattern(data json.RawMessage, where string) (pattern, error) {
	var d struct{ String, Regex *string }
	if err := strict(data, where, &d); err != nil {
		return pattern{}, err
	}
	switch {
	case d.String != nil && d.Regex == nil && *d.String != "":
		return pattern{literal: *d.String}, nil
	case d.Regex != nil && d.String == nil && *d.Regex != "":
		return newRegexPattern(*d.Regex, where)
	}
	return pattern{}, fmt.Errorf("%s: expected a non-empty String or Regex", where)
}

func newRegexPattern(text, where string) (pattern, error) {
	if scan, ok := scanners[text]; ok {
		return pattern{scan: scan}, nil
	}
	return compile(text, where)
}

// maxPattern bounds a regular expression, in bytes, because its classes and groups take time and stack
// that grow faster than the text. Those of real models have fewer than 1,000.
const maxPattern = 16 << 10

func compile(text, where string) (pattern, error) {
	if len(text) > maxPattern {
		return pattern{}, fmt.Errorf("%s.Regex has %d bytes; at most %d are supported", where, len(text), maxPattern)
	}
	// The stack has no limit, because a run of white space may be as long as the text.
	re, err := regexp2.Compile(withNewCodePoints(text), regexp2.Unicode, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return pattern{}, fmt.Errorf("%s.Regex %q does not compile: %w", where, text, err)
	}
	return pattern{regexp: re}, probe(re, text, where)
}

// probeTime is what a pattern may take for all texts of probeLength characters that are tried. It finds
// each in less than a millisecond unless it tries exponentially many ways.
const (
	probeTime   = 2 * time.Second
	probeLength = 64
)

// probe refuses a pattern that takes exponential time, such as (a*)*b, because a few words of a
// prompt would never be tokenized. It tries texts of one character that the pattern names, or of two.
func probe(re *regexp2.Regexp, text, where string) error {
	end := time.Now().Add(probeTime)
	defer func() { re.MatchTimeout = regexp2.DefaultMatchTimeout }()
	const mostTried = 24
	tried := map[rune]bool{}
	last := 'a'
	for _, r := range "a1 \n!é" + text {
		if tried[r] || len(tried) == mostTried {
			continue
		}
		tried[r] = true
		for _, unit := range []string{string(r), string([]rune{last, r})} {
			re.MatchTimeout = max(time.Until(end), probeTime/10) // a machine may pause
			if _, err := re.FindAllStringIndex(strings.Repeat(unit, probeLength/utf8.RuneCountInString(unit))+"\x01", -1); err != nil {
				return fmt.Errorf("%s.Regex %q takes too long for %d characters like %q: it tries exponentially many ways", where, text,
					probeLength, unit)
			}
		}
		last = r
	}
	return nil
}

// find appends the matches in s, in order. An empty match splits the text, except at the end of
// another match.
func (p pattern) find(dst []span, s string) []span {
	switch {
	case p.literal != "":
		for done := 0; ; {
			i := strings.Index(s[done:], p.literal)
			if i < 0 {
				return dst
			}
			dst = append(dst, span{done + i, done + i + len(p.literal), true})
			done += i + len(p.literal)
		}
	case p.scan != nil:
		for i := 0; i < len(s); {
			next := p.scan(s, i)
			dst = append(dst, span{i, next, true})
			i = next
		}
	default:
		// The search cannot fail, because it has no time or stack limit.
		found, _ := p.regexp.FindAllStringIndex(s, -1)
		end := -1
		for _, m := range found {
			if m[0] < m[1] || m[0] != end {
				dst = append(dst, span{m[0], m[1], true})
				end = m[1]
			}
		}
	}
	return dst
}

// newInCategory maps the categories in patterns to the code points that are missing from Go's
// tables, which regexp2 uses.
var newInCategory = map[string][]*unicode.RangeTable{
	"L": newLetters, "Lu": {newUpper}, "Ll": {newLower}, "Lm": {newModifierLetter}, "Lo": {newOtherLetter},
	"M": {newMark}, "N": {newNumber}, "Nd": {newNumber}, "P": {newPunctuation},
}

// withNewCodePoints adds the code points of newInCategory to every \p{…}, alone or inside a
// character class.
func withNewCodePoints(text string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], `\p{`):
			name, _, closed := strings.Cut(text[i+3:], "}")
			tables := newInCategory[name]
			if !closed || tables == nil {
				b.WriteString(text[i : i+2])
				i++
				continue
			}
			class := text[i:i+3] + name + "}" + rangesText(tables)
			if !inClass {
				class = "[" + class + "]"
			}
			b.WriteString(class)
			i += 3 + len(name)
			continue
		case text[i] == '\\' && i+1 < len(text):
			b.WriteByte(text[i])
			i++
		case text[i] == '[':
			inClass = true
		case text[i] == ']':
			inClass = false
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

func rangesText(tables []*unicode.RangeTable) string {
	var b strings.Builder
	for _, t := range tables {
		for _, r := range t.R16 {
			fmt.Fprintf(&b, "%c-%c", r.Lo, r.Hi)
		}
		for _, r := range t.R32 {
			fmt.Fprintf(&b, "%c-%c", r.Lo, r.Hi)
		}
	}
	return b.String()
}
