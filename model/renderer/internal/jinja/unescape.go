package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

var simpleEscapes = map[byte]byte{
	'\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
}

// unescape decodes a string literal as Python's unicode-escape codec does after Jinja has written
// every character beyond ASCII as an escape (so a backslash before such a character keeps that
// escape as text).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out.WriteByte(s[i])
			i++
			continue
		}
		if i+1 >= len(s) {
			panic(failf(Syntax, "the string ends in a lone backslash"))
		}
		n := escape(&out, s[i+1:])
		i += 1 + n
	}
	return out.String()
}

// escape decodes what follows a backslash and returns how many bytes it took.
func escape(out *strings.Builder, s string) int {
	if plain, ok := simpleEscapes[s[0]]; ok {
		out.WriteByte(plain)
		return 1
	}
	switch c := s[0]; {
	case c == '\n':
		return 1
	case c >= '0' && c <= '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 32)
		out.WriteRune(rune(v))
		return n
	case c == 'x':
		return hexEscape(out, s, 2)
	case c == 'u':
		return hexEscape(out, s, 4)
	case c == 'U':
		return hexEscape(out, s, 8)
	case c == 'N':
		panic(failf(Unsupported, `named characters (\N{...}) in strings`))
	case c >= utf8.RuneSelf:
		r, n := utf8.DecodeRuneInString(s)
		format := "\\U%08x"
		if r < 0x100 {
			format = "\\x%02x"
		} else if r < 0x10000 {
			format = "\\u%04x"
		}
		fmt.Fprintf(out, format, r)
		return n
	}
	out.WriteByte('\\')
	return 0
}

func hexEscape(out *strings.Builder, s string, digits int) int {
	if len(s) < 1+digits {
		panic(failf(Syntax, "truncated \\%c escape in a string", s[0]))
	}
	v, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil || v > utf8.MaxRune {
		panic(failf(Syntax, "invalid \\%c escape in a string", s[0]))
	}
	if !utf8.ValidRune(rune(v)) {
		panic(failf(Unsupported, "lone surrogate \\u%04x in a string", v))
	}
	out.WriteRune(rune(v))
	return 1 + digits
}
