package constraint

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"sort"
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
	for i, text := range texts {
		if text == "" || len(text) > maxChoice {
			return none, fmt.Errorf("choice %d has %d bytes; want 1 to %d", i+1, len(text), maxChoice)
		}
	}
	return b.marks(texts), nil
}

// marks matches one of the texts. Beginnings that texts share stand once, so that a state is one place in
// a tree and not a list of all the texts.
func (b *builder) marks(texts []string) int32 {
	sorted := slices.Compact(slices.Sorted(slices.Values(texts)))
	return b.unit(b.tree(sorted, 0), unitPlain)
}

// tree matches the rests of sorted texts, which agree in their first bytes, behind those.
func (b *builder) tree(texts []string, from int) int32 {
	if len(texts) == 0 {
		return none
	}
	first, last := texts[0], texts[len(texts)-1]
	to := from
	for to < min(len(first), len(last)) && first[to] == last[to] {
		to++
	}
	var list []int32
	rest := texts
	if len(first) == to {
		list, rest = append(list, empty), texts[1:]
	}
	for len(rest) > 0 {
		n := sort.Search(len(rest), func(i int) bool { return rest[i][to] > rest[0][to] })
		list = append(list, b.cat(b.span(rest[0][to], rest[0][to]), b.tree(rest[:n], to+1)))
		rest = rest[n:]
	}
	return b.cat(b.literal(first[from:to]), b.alt(list...))
}

// wholeRegex matches what an expression matches from the beginning to the end.
func (b *builder) wholeRegex(pattern string) (int32, error) {
	branches, err := b.branches(pattern, &regex{b: b, chars: b.runes})
	list := make([]int32, len(branches))
	for i, x := range branches {
		list[i] = x.node
	}
	return b.unit(b.alt(list...), unitPlain), err
}

// search matches the contents of strings in which a pattern of a schema matches a part. Dialects differ in
// what \s, \S and a point match: [narrow] has what they all match, and [wide] what any of them does.
func (b *builder) search(pattern string, dialect dialect) (int32, error) {
	branches, err := b.patternOf(pattern, dialect)
	return b.found(branches, dialect), err
}

// patternOf reads a pattern of a schema for the contents of strings.
func (b *builder) patternOf(pattern string, dialect dialect) ([]branch, error) {
	chars := b.chars
	if b.bare {
		chars = b.runes
	}
	return b.branches(fromECMA(pattern), &regex{b: b, chars: chars, dialect: dialect})
}

// found matches the contents of strings that contain a match of a branch.
func (b *builder) found(branches []branch, dialect dialect) int32 {
	out, any := none, b.rep(b.exact, 0, unlimited)
	if dialect == wide {
		any = all // whose complement is none at once
	}
	for _, x := range branches {
		if !x.begins {
			x.node = b.cat(any, x.node)
		}
		if !x.ends {
			x.node = b.cat(x.node, any)
		}
		out = b.alt(out, x.node)
	}
	return out
}

// branch is one alternative of a pattern.
type branch struct {
	node         int32
	begins, ends bool // it has ^ and $ at its ends
	isSeries     bool // it is a repetition of one character
}

func (x branch) series() bool { return x.begins && x.ends && x.isSeries }

// branches reads a pattern in the syntax of RE2.
func (b *builder) branches(pattern string, r *regex) (out []branch, err error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes; want at most %d", len(pattern), maxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern cannot be read (its syntax is that of RE2): %w", err)
	}
	r.known = map[[2]rune]int32{}
	rows, err := unanchored(re)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		one, fits, err := r.branch(row)
		if err != nil {
			return nil, err
		}
		if fits {
			out = append(out, one)
		}
	}
	return out, b.err
}

// branch returns what a row of expressions matches, in which ^ and $ stand alone. Before ^ and behind $
// there is no text; fits is false if an expression there needs some.
func (r *regex) branch(row []*syntax.Regexp) (out branch, fits bool, err error) {
	first, last := 0, len(row)
	for i, re := range row {
		switch re.Op {
		case syntax.OpBeginText:
			first, out.begins = i+1, true
		case syntax.OpEndText:
			if !out.ends {
				last, out.ends = i, true
			}
		}
	}
	out.node = empty
	for i := len(row) - 1; i >= 0; i-- {
		if row[i].Op == syntax.OpBeginText || row[i].Op == syntax.OpEndText {
			continue
		}
		one, err := r.one(row[i])
		switch {
		case err != nil:
			return out, false, err
		case first <= i && i < last:
			out.node = r.b.cat(one, out.node)
			n := r.b.nodes[one]
			out.isSeries = last-first == 1 && n.kind == kindRep && r.b.single[n.a]
		case !r.b.nodes[one].nullable:
			return out, false, nil
		}
	}
	return out, true, nil
}

// regex turns the tree of an expression into nodes.
type regex struct {
	b       *builder
	chars   func(lo, hi rune) int32 // matches the code points of a range
	dialect dialect
	known   map[[2]rune]int32 // ranges
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
		return r.class(r.dialect.class(re.Rune)), nil
	case syntax.OpAnyChar:
		return r.in(0, unicode.MaxRune), nil
	case syntax.OpAnyCharNotNL:
		return r.class(r.dialect.point()), nil
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
	return none, errAnchors
}

// class matches the code points of ranges.
func (r *regex) class(ranges []rune) int32 {
	list := make([]int32, 0, len(ranges)/2)
	for i := 0; i < len(ranges); i += 2 {
		list = append(list, r.in(ranges[i], ranges[i+1]))
	}
	out := r.b.factored(r.b.alt(list...))
	r.b.single[out] = true
	return out
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
