package tokenizer

import "strings"

// Byte-level vocabularies spell each byte as a printable code point: printable Latin-1 as itself,
// the other bytes from U+0100 on, in order (Radford et al. 2019, GPT-2). A space is Ġ, a line feed
// Ċ.
var byteToRune, runeToByte = byteAlphabet()

func byteAlphabet() (toRune [256]rune, toByte map[rune]byte) {
	toByte = make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if printable := r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae; !printable {
			r = next
			next++
		}
		toRune[b], toByte[r] = r, byte(b)
	}
	return toRune, toByte
}

// byteOf returns the byte of r in the byte alphabet.
func byteOf(r rune) (byte, bool) {
	if r > ' ' && r <= '~' {
		return byte(r), true
	}
	b, ok := runeToByte[r]
	return b, ok
}

// bytesOf decodes the byte alphabet; ok is false if s holds a code point outside it.
func bytesOf(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		c, ok := byteOf(r)
		if !ok {
			return "", false
		}
		b = append(b, c)
	}
	return string(b), true
}

// alphabetOf spells the bytes of s in the byte alphabet.
func alphabetOf(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(byteToRune[s[i]])
	}
	return b.String()
}
