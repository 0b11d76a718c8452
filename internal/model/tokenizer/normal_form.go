package tokenizer

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

var unicodeForms = map[string]normalizer{
	"NFC":  func(s string) string { return normalForm(norm.NFC, s) },
	"NFD":  func(s string) string { return normalForm(norm.NFD, s) },
	"NFKC": func(s string) string { return normalForm(norm.NFKC, s) },
	"NFKD": func(s string) string { return normalForm(norm.NFKD, s) },
}

// undecomposed are code points that the reference does not decompose, because its normalization
// tables are of Unicode 12.
var undecomposed = ranges(0x32ff, 0x32ff, 0xa7f2, 0xa7f4, 0xab69, 0xab69, 0x10781, 0x10785, 0x10787, 0x107b0,
	0x107b2, 0x107ba, 0x11938, 0x11938, 0x1e030, 0x1e06d, 0x1f16c, 0x1f16c, 0x1fbf0, 0x1fbf9)

// normalForm applies a Unicode normalization form (UAX 15).
func normalForm(form norm.Form, s string) string {
	if form.IsNormalString(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool { return unicode.Is(undecomposed, r) })
		if i < 0 {
			i = len(s)
		}
		b.WriteString(streamUnsafe(form, s[:i]))
		s = s[i:]
		kept := len(s) - len(strings.TrimLeftFunc(s, func(r rune) bool { return unicode.Is(undecomposed, r) }))
		b.WriteString(s[:kept])
		s = s[kept:]
	}
	return b.String()
}

const graphemeJoiner = "\u034f"

// streamUnsafe is form.String without the stream-safe format, which inserts a grapheme joiner into
// runs of more than 30 combining marks (UAX 15, section 13). The reference inserts none.
func streamUnsafe(form norm.Form, s string) string {
	out := form.String(s)
	if strings.Count(out, graphemeJoiner) == strings.Count(s, graphemeJoiner) {
		return out
	}
	composed := form == norm.NFC || form == norm.NFKC
	decomposed := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		decomposed = norm.NFKD
	}
	var runes []rune
	for _, r := range s {
		runes = append(runes, []rune(decomposed.String(string(r)))...)
	}
	orderMarks(runes)
	if composed {
		runes = compose(runes)
	}
	return string(runes)
}

func combiningClass(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// orderMarks sorts each run of combining marks by combining class, stably.
func orderMarks(runes []rune) {
	for i := 0; i < len(runes); {
		start := i
		for i < len(runes) && combiningClass(runes[i]) != 0 {
			i++
		}
		slices.SortStableFunc(runes[start:i], func(a, b rune) int { return int(combiningClass(a)) - int(combiningClass(b)) })
		i = max(i, start+1)
	}
}

// compose joins each mark with the last starter before it, unless a mark of the same or a higher
// class lies between them.
func compose(runes []rune) []rune {
	out := runes[:0]
	starter, last := -1, 0 // index of the starter in out; class of the preceding code point
	for _, r := range runes {
		class := int(combiningClass(r))
		if starter >= 0 && (last < class || starter == len(out)-1) {
			if joined := []rune(norm.NFC.String(string([]rune{out[starter], r}))); len(joined) == 1 {
				out[starter] = joined[0]
				continue
			}
		}
		if last = class; class == 0 {
			starter = len(out)
		}
		out = append(out, r)
	}
	return out
}
