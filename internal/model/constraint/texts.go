package constraint

import (
	"slices"
	"strings"
	"unicode"
)

// Some models write the arguments of calls as texts: a string as it is, other values as JSON. What reads
// them takes a text for a value of JSON or Python wherever the schema allows one.

// avoid makes strings those that have none of the marks, at which the text of an argument ends.
func (b *builder) avoid(marks []string) {
	list := make([]int32, len(marks))
	for i, mark := range marks {
		list[i] = b.literal(mark)
	}
	b.unmarked, b.free = b.lacks(b.alt(list...)), none
	b.text = b.quoted(b.and(b.rep(b.char, 0, unlimited), b.unmarked))
}

// asText matches the texts of an argument that satisfies the schemas at places; none if no value does.
func (b *builder) asText(places []string) (int32, error) {
	sets, err := b.alternatives(places, nil)
	if err != nil {
		return none, err
	}
	isText := len(places) > 0
	for _, place := range places {
		some, err := b.alternatives([]string{place}, nil)
		if err != nil {
			return none, err
		}
		for _, parts := range some {
			allowed, _ := typesOf(parts, false)
			isText = isText && len(allowed) == 1 && allowed[0] == "string"
		}
	}
	var list []int32
	for _, parts := range sets {
		x, err := b.plainText(parts, isText)
		if err != nil {
			return none, err
		}
		list = append(list, x)
	}
	return b.alt(list...), nil
}

// plainText matches the texts of values that satisfy all parts. isText says that no text is read as
// another value than a string.
func (b *builder) plainText(parts []part, isText bool) (int32, error) {
	if values, listed := valuesOf(parts); listed {
		return b.listedTexts(parts, values)
	}
	allowed, whole := typesOf(parts, slices.ContainsFunc(parts, part.limits))
	others := slices.DeleteFunc(slices.Clone(allowed), func(name string) bool { return name == "string" })
	out, err := b.typed(parts, others, whole)
	if err != nil || !slices.Contains(allowed, "string") {
		return out, err
	}
	content, err := b.raw(parts)
	if err != nil {
		return none, err
	}
	if !isText {
		content = b.and(content, b.not(b.otherValues()))
	}
	return b.alt(out, b.unit(content, unitPlain)), nil
}

// raw matches strings without quotes and escapes.
func (b *builder) raw(parts []part) (int32, error) {
	inQuotes := b.parts
	b.bare, b.char = true, b.runes(0, unicode.MaxRune)
	b.exact = b.char
	defer func() { b.parts, b.bare = inQuotes, false }()
	return b.content(parts)
}

// otherValues matches at least the texts that may be read as another value than a string: what begins as
// JSON or Python does, and the words of both.
func (b *builder) otherValues() int32 {
	blank := b.rep(b.class(blanks), 0, unlimited)
	words := b.marks([]string{"true", "false", "null", "True", "False", "None"})
	return b.cat(blank, b.alt(b.cat(b.oneOf("[{-0123456789"), all), b.cat(words, blank)))
}

// blanks are the ranges of the white space that the reader of calls trims.
var blanks = func() (ranges []rune) {
	for c := rune(0); c <= 0x3000; c++ {
		if unicode.IsSpace(c) {
			ranges = append(ranges, c, c)
		}
	}
	return ranges
}()

// class matches the code points of ranges.
func (b *builder) class(ranges []rune) int32 {
	r := &regex{b: b, chars: b.runes, known: map[[2]rune]int32{}}
	return r.class(ranges)
}

// listedTexts matches the listed values that satisfy all parts.
func (b *builder) listedTexts(parts []part, values []any) (int32, error) {
	var texts []string
	for _, v := range values {
		text, isString := v.(string)
		if !isString {
			text = b.write(v)
		}
		fits, err := b.satisfies(v, parts)
		if err == nil {
			err = b.checkMarks(parts[0].at, text)
		}
		if err != nil {
			return none, err
		}
		if fits {
			texts = append(texts, text)
		}
	}
	return b.marks(texts), nil
}

// checkMarks refuses a value that has one of the marks.
func (b *builder) checkMarks(at, text string) error {
	for _, mark := range b.syntax.Marks {
		if strings.Contains(text, mark) {
			return refuse(at, "a listed value has %s, at which the model ends an argument: leave it out", mark)
		}
	}
	return nil
}
