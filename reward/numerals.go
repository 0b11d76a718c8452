package reward

import (
	"strings"
	"unicode"
)

// Signs of numbers beside those of ASCII: minus signs, and hyphens and dashes that stand for them.
const (
	minusSigns = "\u2212\uFE63\uFF0D\u2010\u2011\u2012\u2013"
	plusSigns  = "\uFE62\uFF0B"
)

// plainNumerals returns a text with its decimal digits of all scripts in ASCII, and the signs and points
// of its numbers too. A sign behind a digit, a Latin or Greek letter, or a bracket is left as it is: that
// is a difference, or a range.
func plainNumerals(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return text
	}
	runes := []rune(text)
	for i, r := range runes {
		runes[i] = plainDigit(r)
	}
	isDigit := func(i int) bool { return i >= 0 && i < len(runes) && '0' <= runes[i] && runes[i] <= '9' }
	for i, r := range runes {
		continues := i > 0 && (isDigit(i-1) || unicode.In(runes[i-1], unicode.Latin, unicode.Greek) || strings.ContainsRune(")]}", runes[i-1]))
		switch isNumber := isDigit(i + 1); {
		case isNumber && !continues && strings.ContainsRune(minusSigns, r):
			runes[i] = '-'
		case isNumber && !continues && strings.ContainsRune(plusSigns, r):
			runes[i] = '+'
		case isNumber && isDigit(i-1) && (r == '\uFF0E' || r == '\u066B'):
			runes[i] = '.'
		case isNumber && isDigit(i-1) && (r == '\u066C' || r == '\uFF0C' && isDigit(i+2) && isDigit(i+3) && !isDigit(i+4)):
			runes[i] = ',' // a full-width comma also separates numbers in a text, as in 3，4
		}
	}
	return string(runes)
}

// plainDigit returns the ASCII digit of a decimal digit, and any other character as it is. The digits of
// a script stand in order, each ten of them together.
func plainDigit(r rune) rune {
	if r <= unicode.MaxASCII || !unicode.IsDigit(r) {
		return r
	}
	for _, of := range unicode.Nd.R16 {
		if rune(of.Lo) <= r && r <= rune(of.Hi) {
			return '0' + (r-rune(of.Lo))%10
		}
	}
	for _, of := range unicode.Nd.R32 {
		if rune(of.Lo) <= r && r <= rune(of.Hi) {
			return '0' + (r-rune(of.Lo))%10
		}
	}
	return r
}

// plainOperators writes the signs of an expression in ASCII.
var plainOperators = strings.NewReplacer("−", "-", "\uFE63", "-", "－", "-", "‐", "-", "‑", "-", "‒", "-", "–", "-", "﹢", "+", "＋", "+",
	"×", "*", "⋅", "*", "·", "*", "∗", "*", "＊", "*", "÷", "/", "∕", "/", "／", "/", "（", "(", "）", ")")
