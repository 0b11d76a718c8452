package constraint

import "unicode/utf8"

// runes matches the UTF-8 of a code point from lo to hi, less the surrogates.
func (g *arena) runes(lo, hi rune) int32 {
	out := none
	for _, part := range [][2]rune{{0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, utf8.MaxRune}} {
		from, to := max(lo, part[0]), min(hi, part[1])
		if from > to {
			continue
		}
		var a, b [utf8.UTFMax]byte
		n := utf8.EncodeRune(a[:], from)
		utf8.EncodeRune(b[:], to)
		out = g.alt(out, g.between(a[:n], b[:n]))
	}
	return out
}

// between matches the code points from a to b, both in UTF-8 of one length.
func (g *arena) between(a, b []byte) int32 {
	if len(a) == 0 {
		return empty
	}
	if a[0] == b[0] {
		return g.cat(g.span(a[0], a[0]), g.between(a[1:], b[1:]))
	}
	low, high := []byte{0x80, 0x80, 0x80}[:len(a)-1], []byte{0xbf, 0xbf, 0xbf}[:len(a)-1]
	from, to := a[0], b[0]
	out := none
	if string(a[1:]) != string(low) {
		out = g.cat(g.span(from, from), g.between(a[1:], high))
		from++
	}
	if string(b[1:]) != string(high) {
		out = g.alt(out, g.cat(g.span(to, to), g.between(low, b[1:])))
		to--
	}
	if from <= to {
		out = g.alt(out, g.cat(g.span(from, to), g.between(low, high)))
	}
	return out
}
