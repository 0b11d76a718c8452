package constraint

import (
	"strings"

	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// builder builds the grammar of a form.
type builder struct {
	*arena
	parts
	words    [3]string       // true, false and null in the language of the values
	free     int32           // any value; none until it is asked for
	special  map[string]bool // names of special tokens
	isCall   bool            // a schema is that of a call's arguments
	keywords bool            // which stand one by one
	syntax   toolcall.Syntax // of the calls
	unmarked int32           // what strings are beside their schema: texts without marks; none for all
	bare     bool            // strings have no escapes
	compiler
}

// parts are nodes that all grammars of JSON have.
type parts struct {
	space  int32 // white space between the parts of a value
	char   int32 // a character of a string in any spelling
	exact  int32 // a character of a string in its only spelling
	text   int32 // a string
	begun  int32 // the rest of one
	number int32
	whole  int32 // an integer
}

// Digits of numbers whose schema sets no bounds: more would not survive a float64, and a reply must end.
const (
	wholeDigits    = 15
	fractionDigits = 15
)

// base is what grammars of a vocabulary begin with.
type base struct {
	arena *arena
	parts parts
	text  *inner // of parts.begun
}

var jsonWords = [3]string{"true", "false", "null"}

// builder returns a builder of a new grammar. The parts of JSON, and which tokens a string takes, are
// found once.
func (v *Vocabulary) builder() *builder {
	v.once.Do(func() {
		b := &builder{arena: newArena()}
		b.makeParts()
		m := newMasks(b.arena, v)
		v.base = base{b.arena, b.parts, m.newInner(b.begun)}
	})
	return &builder{arena: v.base.arena.clone(), parts: v.base.parts, words: jsonWords, special: v.marks}
}

func (b *builder) makeParts() {
	newline := b.cat(b.rep(b.literal("\n"), 1, 2), b.rep(b.oneOf(" \t"), 0, 20))
	b.space = b.unit(b.option(b.alt(b.literal(" "), newline)), unitPlain)
	hex := b.oneOf("0123456789abcdefABCDEF")
	plain := b.alt(b.runes(0x20, 0x21), b.runes(0x23, 0x5b), b.runes(0x5d, 0x10ffff))
	short := b.cat(b.literal(`\`), b.oneOf(`"\/bfnrt`))
	d := b.oneOf("dD")
	code := b.seq(b.literal(`\u`), b.alt(b.seq(b.oneOf("0123456789abcefABCEF"), hex, hex, hex), b.seq(d, b.span('0', '7'), hex, hex)))
	pair := b.seq(b.literal(`\u`), d, b.oneOf("89abAB"), hex, hex, b.literal(`\u`), d, b.oneOf("cdefCDEF"), hex, hex)
	b.char = b.alt(plain, short, code, pair)
	b.exact = b.chars(0, 0x10ffff)
	b.single[b.char], b.single[b.exact] = true, true
	b.text = b.quoted(b.rep(b.char, 0, unlimited))
	b.begun = b.step(b.text, '"')
	digit := b.span('0', '9')
	b.whole = b.unit(b.cat(b.option(b.literal("-")), b.magnitude()), unitPlain)
	exponent := b.seq(b.oneOf("eE"), b.option(b.oneOf("+-")), b.rep(digit, 1, 2))
	b.number = b.unit(b.seq(b.option(b.literal("-")), b.magnitude(), b.option(b.fraction()), b.option(exponent)), unitPlain)
}

// magnitude matches the digits before the point.
func (b *builder) magnitude() int32 {
	return b.alt(b.literal("0"), b.cat(b.span('1', '9'), b.rep(b.span('0', '9'), 0, wholeDigits-1)))
}

// fraction matches the point and the digits behind it.
func (b *builder) fraction() int32 {
	return b.cat(b.literal("."), b.rep(b.span('0', '9'), 1, fractionDigits))
}

// quoted matches a string with a content.
func (b *builder) quoted(content int32) int32 {
	return b.unit(b.seq(b.literal(`"`), content, b.literal(`"`)), unitText)
}

// chars matches the only spelling, in a string, of each code point from lo to hi: the character, or an
// escape if JSON demands one. So a text has one spelling, and patterns and names mean what they say.
func (b *builder) chars(lo, hi rune) int32 {
	out := none
	for _, r := range [][2]rune{{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}} {
		if from, to := max(lo, r[0]), min(hi, r[1]); from <= to {
			out = b.alt(out, b.runes(from, to))
		}
	}
	for c := lo; c <= min(hi, '\\'); c++ {
		if c < 0x20 || c == '"' || c == '\\' {
			out = b.alt(out, b.literal(escape(c)))
		}
	}
	return out
}

// escape returns the spelling of a character that has no other one in a string.
func escape(c rune) string {
	if at := strings.IndexRune("\"\\\b\f\n\r\t", c); at >= 0 {
		return `\` + `"\bfnrt`[at:at+1]
	}
	const hex = "0123456789abcdef"
	return `\u00` + hex[c>>4:c>>4+1] + hex[c&15:c&15+1]
}

// spelled returns a text as it stands in a string of JSON.
func spelled(text string) string {
	var out strings.Builder
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' {
			out.WriteString(escape(c))
		} else {
			out.WriteRune(c)
		}
	}
	return out.String()
}

// key matches the name of a member and its colon.
func (b *builder) key(name int32) int32 { return b.seq(name, b.mark(":"), b.space) }

// named matches a member's name.
func (b *builder) named(name string) int32 {
	return b.unit(b.literal(`"`+spelled(name)+`"`), unitPlain)
}

func (b *builder) mark(text string) int32 { return b.unit(b.literal(text), unitPlain) }

// comma matches what stands between two elements.
func (b *builder) comma() int32 { return b.seq(b.mark(","), b.space) }

// anything matches any value of JSON.
func (b *builder) anything() int32 {
	if b.free == none {
		b.free = b.declare(false)
		b.define(b.free, b.alt(b.text, b.number, b.mark(b.words[0]), b.mark(b.words[1]), b.mark(b.words[2]),
			b.anyObject(), b.list(b.free, 0, unlimited)))
	}
	return b.free
}

// anyObject matches any object.
func (b *builder) anyObject() int32 {
	member := b.cat(b.key(b.text), b.anything())
	return b.braces(b.series(member, 0, unlimited))
}

// braces matches an object with these members.
func (b *builder) braces(members int32) int32 {
	return b.seq(b.mark("{"), b.space, members, b.mark("}"))
}

// list matches an array of such elements.
func (b *builder) list(element int32, least, most int32) int32 {
	return b.seq(b.mark("["), b.space, b.series(element, least, most), b.mark("]"))
}

// series matches from least to most elements with commas between them, and the space behind them.
func (b *builder) series(element int32, least, most int32) int32 {
	switch {
	case most != unlimited && least > most:
		return none
	case most == 0 || element == none && least == 0:
		return empty
	}
	rest := most
	if most != unlimited {
		rest = most - 1
	}
	some := b.seq(element, b.rep(b.cat(b.comma(), element), max(0, least-1), rest), b.space)
	if least > 0 {
		return some
	}
	return b.option(some)
}
