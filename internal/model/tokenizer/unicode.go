package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The reference tokenizers use Unicode 16, and Unicode 17 in functions of Rust's standard library.
// Go's tables are of Unicode 15. These are the code points assigned in between.
var (
	newUpper          = ranges(0x1c89, 0x1c89, 0xa7cb, 0xa7cc, 0xa7da, 0xa7da, 0xa7dc, 0xa7dc, 0x10d50, 0x10d65)
	newLower          = ranges(0x1c8a, 0x1c8a, 0xa7cd, 0xa7cd, 0xa7db, 0xa7db, 0x10d70, 0x10d85)
	newModifierLetter = ranges(0x10d4e, 0x10d4e, 0x10d6f, 0x10d6f, 0x16d40, 0x16d42, 0x16d6b, 0x16d6c)
	newOtherLetter    = ranges(0x105c0, 0x105f3, 0x10d4a, 0x10d4d, 0x10d4f, 0x10d4f, 0x10ec2, 0x10ec4, 0x11380, 0x11389,
		0x1138b, 0x1138b, 0x1138e, 0x1138e, 0x11390, 0x113b5, 0x113b7, 0x113b7, 0x113d1, 0x113d1, 0x113d3, 0x113d3,
		0x11bc0, 0x11be0, 0x13460, 0x143fa, 0x16100, 0x1611d, 0x16d43, 0x16d6a, 0x18cff, 0x18cff, 0x1e5d0, 0x1e5ed,
		0x1e5f0, 0x1e5f0, 0x2ebf0, 0x2ee5d)
	newMark = ranges(0x0897, 0x0897, 0x10d69, 0x10d6d, 0x10efc, 0x10efc, 0x113b8, 0x113c0, 0x113c2, 0x113c2,
		0x113c5, 0x113c5, 0x113c7, 0x113ca, 0x113cc, 0x113d0, 0x113d2, 0x113d2, 0x113e1, 0x113e2, 0x11f5a, 0x11f5a,
		0x1611e, 0x1612f, 0x1e5ee, 0x1e5ef)
	newNumber = ranges(0x10d40, 0x10d49, 0x116d0, 0x116e3, 0x11bf0, 0x11bf9, 0x16130, 0x16139, 0x16d70, 0x16d79,
		0x1ccf0, 0x1ccf9, 0x1e5f1, 0x1e5fa)
	newNumber17    = ranges(0x11de0, 0x11de9, 0x16ff4, 0x16ff6)
	newPunctuation = ranges(0x1b4e, 0x1b4f, 0x1b7f, 0x1b7f, 0x10d6e, 0x10d6e, 0x113d4, 0x113d5, 0x113d7, 0x113d8,
		0x11be1, 0x11be1, 0x16d6d, 0x16d6f, 0x1e5ff, 0x1e5ff)

	newLetters = []*unicode.RangeTable{newUpper, newLower, newModifierLetter, newOtherLetter}
)

// ranges returns a table of the inclusive pairs lo, hi, lo, hi, … in ascending order.
func ranges(bounds ...rune) *unicode.RangeTable {
	t := new(unicode.RangeTable)
	for i := 0; i < len(bounds); i += 2 {
		if lo, hi := bounds[i], bounds[i+1]; hi <= 0xffff {
			t.R16 = append(t.R16, unicode.Range16{Lo: uint16(lo), Hi: uint16(hi), Stride: 1})
		} else {
			t.R32 = append(t.R32, unicode.Range32{Lo: uint32(lo), Hi: uint32(hi), Stride: 1})
		}
	}
	return t
}

// class is the class of a code point in the pre-tokenizers: \p{L}, \p{N}, \s or none of these.
type class byte

const (
	other class = iota
	letter
	number
	space
	end // past the text
)

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		switch {
		case unicode.IsLetter(r):
			t[r] = letter
		case unicode.IsNumber(r):
			t[r] = number
		case unicode.IsSpace(r):
			t[r] = space
		}
	}
	return t
}()

// classAt returns the class of the code point at byte i of s and its length in bytes, (end, 0) past
// the text.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return end, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return asciiClass[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	switch {
	case isLetter(r):
		return letter, n
	case isNumber(r):
		return number, n
	case unicode.IsSpace(r):
		return space, n
	}
	return other, n
}

func isLetter(r rune) bool {
	return unicode.IsLetter(r) || r > unicode.MaxLatin1 && unicode.IsOneOf(newLetters, r)
}
func isNumber(r rune) bool {
	return unicode.IsNumber(r) || r > unicode.MaxLatin1 && unicode.Is(newNumber, r)
}

// isNumeric is Rust's char::is_numeric. It uses a later version of Unicode than the \p{N} of the
// patterns.
func isNumeric(r rune) bool { return isNumber(r) || unicode.Is(newNumber17, r) }

// isWord is the \w of Unicode's regular expressions (UTS 18).
func isWord(r rune) bool {
	return isLetter(r) || r == '\u200c' || r == '\u200d' || unicode.Is(newMark, r) || unicode.Is(newNumber, r) ||
		unicode.In(r, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc)
}

// lowerBeyondGo holds the simple lower-case mappings up to Unicode 17 that Go's tables lack.
var lowerBeyondGo = unicode.SpecialCase{
	{Lo: 0x1c89, Hi: 0x1c89, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7cb, Hi: 0xa7cb, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x264 - 0xa7cb}},
	{Lo: 0xa7cc, Hi: 0xa7cc, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7ce, Hi: 0xa7ce, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7d2, Hi: 0xa7d2, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7d4, Hi: 0xa7d4, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7da, Hi: 0xa7da, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 1}},
	{Lo: 0xa7dc, Hi: 0xa7dc, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x19b - 0xa7dc}},
	{Lo: 0x10d50, Hi: 0x10d65, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x20}},
	{Lo: 0x16ea0, Hi: 0x16eb8, Delta: [unicode.MaxCase]rune{unicode.LowerCase: 0x1b}},
}

// lower maps each code point by itself, as Rust's char::to_lowercase does; a final sigma becomes σ.
func lower(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == 'İ' { // the one code point whose lower case is two
			b.WriteString("i\u0307")
			continue
		}
		b.WriteRune(lowerBeyondGo.ToLower(r))
	}
	return b.String()
}

// validUTF8 replaces each maximal ill-formed part of s by U+FFFD. The Unicode standard recommends
// this, and Python's errors="replace" and Rust's from_utf8_lossy do it.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		n, ok := runePrefix(s)
		if ok {
			b.WriteString(s[:n])
		} else {
			b.WriteRune(utf8.RuneError)
		}
		s = s[n:]
	}
	return b.String()
}

// runePrefix returns the length of the code point at the start of s; if ok is false, it is the
// length of an ill-formed part. If s may be the start of an incomplete code point, n is len(s).
func runePrefix(s string) (n int, ok bool) {
	if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n > 1 {
		return n, true
	}
	size, lo, hi := sequence(s[0])
	n = 1
	for n < size && n < len(s) && s[n] >= lo && s[n] <= hi {
		n, lo, hi = n+1, 0x80, 0xbf
	}
	return n, false
}

// sequence returns the length of the UTF-8 sequence that begins with lead and the range of its
// second byte; size is 1 if lead begins none.
func sequence(lead byte) (size int, lo, hi byte) {
	switch {
	case lead >= 0xc2 && lead <= 0xdf:
		return 2, 0x80, 0xbf
	case lead == 0xe0:
		return 3, 0xa0, 0xbf
	case lead == 0xed:
		return 3, 0x80, 0x9f
	case lead >= 0xe1 && lead <= 0xef:
		return 3, 0x80, 0xbf
	case lead == 0xf0:
		return 4, 0x90, 0xbf
	case lead == 0xf4:
		return 4, 0x80, 0x8f
	case lead >= 0xf1 && lead <= 0xf3:
		return 4, 0x80, 0xbf
	}
	return 1, 0, 0
}

// incomplete returns the number of bytes at the end of s that may begin a code point.
func incomplete(s string) int {
	for back := 1; back <= min(3, len(s)); back++ {
		tail := s[len(s)-back:]
		if utf8.RuneStart(tail[0]) {
			size, _, _ := sequence(tail[0])
			if n, ok := runePrefix(tail); !ok && n == len(tail) && n < size {
				return back
			}
			return 0
		}
	}
	return 0
}
