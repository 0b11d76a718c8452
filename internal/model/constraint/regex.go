package constraint

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"unicode"
)

// Limits of texts in forms.
const (
	maxPattern = 4096 // bytes of a pattern
	maxChoices = 4096
	maxChoice  = 4096 // bytes of a choice
)

// choice matches one of the texts.
func (b *builder) choice(texts []string) (int32, error) {
	if len(texts) > maxChoices {
		return none, fmt.Errorf("%d choices; want at most %d", len(texts), maxChoices)
	}
	var list []int32
	for i, text := range texts {
		if text == "" || len(text) > maxChoice {
			return none, fmt.Errorf("choice %d has %d bytes; want 1 to %d", i+1, len(text), maxChoice)
		}
		list = append(list, b.mark(text))
	}
	return b.alt(list...), nil
}

// wholeRegex matches what an expression matches from the beginning to the end.
func (b *builder) wholeRegex(pattern string) (int32, error) {
	branches, err := b.branches(pattern, b.runes)
	list := make([]int32, len(branches))
	for i, x := range branches {
		list[i] = x.node
	}
	return b.unit(b.alt(list...), unitPlain), err
}

// search matches the contents of strings in which an expression matches a part.
func (b *builder) search(pattern string) (int32, error) {
	branches, err := b.branches(pattern, b.chars)
	out, any := none, b.rep(b.exact, 0, unlimited)
	for _, x := range branches {
		if !x.begins {
			x.node = b.cat(any, x.node)
		}
		if !x.ends {
			x.node = b.cat(x.node, any)
		}
		out = b.alt(out, x.node)
	}
	return out, err
}

// branch is one alternative of a pattern.
type branch struct {
	node         int32
	begins, ends bool // it has ^ and $ at its ends
}

// branches reads a pattern in the syntax of RE2. chars matches the code points of a range.
func (b *builder) branches(pattern string, chars func(lo, hi rune) int32) ([]branch, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes; want at most %d", len(pattern), maxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern cannot be read (its syntax is that of RE2): %w", err)
	}
	r := &regex{b, chars, map[[2]rune]int32{}}
	var out []branch
	for _, one := range alternatives(re) {
		begins, ends, inner := anchors(one)
		node, err := r.node(inner)
		if err != nil {
			return nil, err
		}
		out = append(out, branch{node, begins, ends})
	}
	return out, b.err
}

// alternatives returns the alternatives of an expression, also those in a group.
func alternatives(re *syntax.Regexp) []*syntax.Regexp {
	switch re.Op {
	case syntax.OpCapture:
		return alternatives(re.Sub[0])
	case syntax.OpAlternate:
		var all []*syntax.Regexp
		for _, sub := range re.Sub {
			all = append(all, alternatives(sub)...)
		}
		return all
	}
	return []*syntax.Regexp{re}
}

// anchors takes ^ and $ from the ends of an expression.
func anchors(re *syntax.Regexp) (begins, ends bool, inner []*syntax.Regexp) {
	inner = []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		inner = re.Sub
	}
	for len(inner) > 0 && inner[0].Op == syntax.OpBeginText {
		begins, inner = true, inner[1:]
	}
	for len(inner) > 0 && inner[len(inner)-1].Op == syntax.OpEndText {
		ends, inner = true, inner[:len(inner)-1]
	}
	return begins, ends, inner
}

// regex turns the tree of an expression into nodes.
type regex struct {
	b     *builder
	chars func(lo, hi rune) int32
	known map[[2]rune]int32 // ranges
}

// node matches expressions in a row.
func (r *regex) node(list []*syntax.Regexp) (int32, error) {
	out := empty
	for i := len(list) - 1; i >= 0; i-- {
		one, err := r.one(list[i])
		if err != nil {
			return none, err
		}
		out = r.b.cat(one, out)
	}
	return out, r.b.err
}

func (r *regex) one(re *syntax.Regexp) (int32, error) {
	switch re.Op {
	case syntax.OpNoMatch:
		return none, nil
	case syntax.OpEmptyMatch:
		return empty, nil
	case syntax.OpLiteral:
		out := empty
		for i := len(re.Rune) - 1; i >= 0; i-- {
			out = r.b.cat(r.folded(re.Rune[i], re.Flags&syntax.FoldCase != 0), out)
		}
		return out, nil
	case syntax.OpCharClass:
		out := none
		for i := 0; i < len(re.Rune); i += 2 {
			out = r.b.alt(out, r.in(re.Rune[i], re.Rune[i+1]))
		}
		return out, nil
	case syntax.OpAnyChar:
		return r.in(0, unicode.MaxRune), nil
	case syntax.OpAnyCharNotNL:
		return r.b.alt(r.in(0, '\n'-1), r.in('\n'+1, unicode.MaxRune)), nil
	case syntax.OpCapture:
		return r.node(re.Sub)
	case syntax.OpConcat:
		return r.node(re.Sub)
	case syntax.OpAlternate:
		var list []int32
		for _, sub := range re.Sub {
			x, err := r.one(sub)
			if err != nil {
				return none, err
			}
			list = append(list, x)
		}
		return r.b.alt(list...), nil
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		x, err := r.one(re.Sub[0])
		least, most := repeats(re)
		return r.b.rep(x, least, most), err
	}
	return none, errors.New("the pattern has ^, $ or \\b in its middle, or the flag m: a constraint knows ^ and $ at the ends alone")
}

// repeats returns how often an expression with an operator for it may occur.
func repeats(re *syntax.Regexp) (least, most int32) {
	switch re.Op {
	case syntax.OpStar:
		return 0, unlimited
	case syntax.OpPlus:
		return 1, unlimited
	case syntax.OpQuest:
		return 0, 1
	}
	return int32(re.Min), int32(re.Max)
}

// folded matches a character, in any case if fold is set.
func (r *regex) folded(c rune, fold bool) int32 {
	out := r.in(c, c)
	if fold {
		for x := unicode.SimpleFold(c); x != c; x = unicode.SimpleFold(x) {
			out = r.b.alt(out, r.in(x, x))
		}
	}
	return out
}

// in matches the code points of a range.
func (r *regex) in(lo, hi rune) int32 {
	id, ok := r.known[[2]rune{lo, hi}]
	if !ok {
		id = r.chars(lo, hi)
		r.known[[2]rune{lo, hi}] = id
	}
	return id
}
