package config

import (
	"errors"
	"fmt"
	"strings"
)

type partKind int

const (
	literalPart   partKind = iota // text
	referencePart                 // ${key}: args[0] is the key
	resolverPart                  // ${name:args}
)

// part is a piece of a value: text, or one interpolation.
type part struct {
	kind   partKind
	text   string // the literal, or what stands between the braces
	quoted bool   // a literal that was in quotes
	name   string // of the resolver
	args   [][]part
}

// parseInterpolation splits a value into text and interpolations. `\${` is the text `${`; `\\${` is
// a backslash before an interpolation.
func parseInterpolation(s string) ([]part, error) {
	p := &reader{s: s}
	parts, err := p.parts("")
	if err != nil {
		return nil, fmt.Errorf("interpolation %q: %w", shorten(s), err)
	}
	return parts, nil
}

type reader struct {
	s     string
	i     int
	depth int
}

// parts reads until one of the stop characters or the end. It does not consume the stop character.
func (p *reader) parts(stop string) ([]part, error) {
	var out []part
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, part{kind: literalPart, text: b.String()})
			b.Reset()
		}
	}
	for p.i < len(p.s) {
		c := p.s[p.i]
		switch {
		case stop != "" && strings.IndexByte(stop, c) >= 0:
			flush()
			return out, nil
		case c == '\\':
			p.escape(&b, stop)
		case strings.HasPrefix(p.s[p.i:], "${"):
			flush()
			one, err := p.interpolation()
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		default:
			b.WriteByte(c)
			p.i++
		}
	}
	if stop != "" {
		return nil, errors.New("the closing } is missing")
	}
	flush()
	return out, nil
}

// escape reads backslashes. Outside an interpolation they have a meaning only before `${`. Inside,
// a backslash makes the next character text.
func (p *reader) escape(b *strings.Builder, stop string) {
	if stop != "" {
		if p.i++; p.i < len(p.s) {
			b.WriteByte(p.s[p.i])
			p.i++
		}
		return
	}
	n := 0
	for p.i+n < len(p.s) && p.s[p.i+n] == '\\' {
		n++
	}
	if !strings.HasPrefix(p.s[p.i+n:], "${") {
		b.WriteString(p.s[p.i : p.i+n])
		p.i += n
		return
	}
	b.WriteString(strings.Repeat(`\`, n/2))
	p.i += n
	if n%2 == 1 {
		b.WriteString("${")
		p.i += 2
	}
}

// interpolation reads from `${` to its `}`.
func (p *reader) interpolation() (part, error) {
	if p.depth++; p.depth > maxDepth {
		return part{}, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	start := p.i + 2
	p.i = start
	name, err := p.parts(":}")
	if err != nil {
		return part{}, err
	}
	if p.s[p.i] == '}' {
		p.i++
		inner := p.s[start : p.i-1]
		if strings.TrimSpace(inner) == "" {
			return part{}, errors.New("${} names no key")
		}
		return part{kind: referencePart, text: inner, args: [][]part{trim(name)}}, nil
	}
	if name = trim(name); len(name) != 1 || name[0].kind != literalPart {
		return part{}, errors.New("a resolver's name is plain text")
	}
	out := part{kind: resolverPart, name: name[0].text}
	for {
		p.i++ // the ':' or ','
		arg, err := p.argument()
		if err != nil {
			return part{}, err
		}
		out.args = append(out.args, arg)
		if p.s[p.i] == '}' {
			p.i++
			out.text = p.s[start : p.i-1]
			return out, nil
		}
	}
}

// argument reads one argument, up to but not including the `,` or `}` after it.
func (p *reader) argument() ([]part, error) {
	for p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
	}
	if p.i < len(p.s) && (p.s[p.i] == '\'' || p.s[p.i] == '"') {
		return p.quotedArgument(p.s[p.i : p.i+1])
	}
	parts, err := p.parts(",}")
	return trim(parts), err
}

func (p *reader) quotedArgument(quote string) ([]part, error) {
	p.i++
	parts, err := p.parts(quote)
	if err != nil {
		return nil, fmt.Errorf("the closing %s is missing", quote)
	}
	p.i++
	for p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
	}
	if p.i >= len(p.s) || (p.s[p.i] != ',' && p.s[p.i] != '}') {
		return nil, fmt.Errorf("after a quoted argument comes , or }")
	}
	if len(parts) == 0 {
		parts = []part{{kind: literalPart}}
	}
	for i := range parts {
		parts[i].quoted = true
	}
	return parts, nil
}

// trim removes the spaces at both ends.
func trim(parts []part) []part {
	if n := len(parts); n > 0 && parts[n-1].kind == literalPart {
		parts[n-1].text = strings.TrimRight(parts[n-1].text, " ")
	}
	if len(parts) > 0 && parts[0].kind == literalPart {
		parts[0].text = strings.TrimLeft(parts[0].text, " ")
	}
	if len(parts) == 1 && parts[0].kind == literalPart && parts[0].text == "" {
		return nil
	}
	return parts
}

func shorten(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:80], "") + "…"
}
