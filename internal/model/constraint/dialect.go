package constraint

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf16"
)

// A schema's patterns are written in the dialect of ECMA-262, and a reader of replies may take them for
// those of another language. Go's syntax, RE2, is read here.

// dialect says how to read what dialects disagree on.
type dialect int

const (
	asRE2  dialect = iota
	narrow         // what all dialects match: for texts that must match
	wide           // what any dialect matches: for texts that must not
)

// spaces are the code points, beside those of \s in RE2, that \s matches in ECMA-262 or in Python.
var spaces = []rune{0x0b, 0x0b, 0x1c, 0x1f, 0x85, 0x85, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f,
	0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff}

// point returns the ranges that a point matches.
func (d dialect) point() []rune {
	line := []rune{'\n', '\n'}
	if d == narrow {
		line = []rune{'\n', '\n', '\r', '\r', 0x2028, 0x2029}
	}
	return without([]rune{0, unicode.MaxRune}, line)
}

// class returns the ranges of a class. RE2 has replaced \s and \S by ranges: a class that has all spaces
// of RE2, or none and yet others, is taken for one with them.
func (d dialect) class(ranges []rune) []rune {
	has := func(c rune) bool {
		for i := 0; i < len(ranges); i += 2 {
			if ranges[i] <= c && c <= ranges[i+1] {
				return true
			}
		}
		return false
	}
	ascii := []rune("\t\n\f\r ")
	switch {
	case d == narrow && !slices.ContainsFunc(ascii, has):
		return without(ranges, spaces)
	case d == wide && !slices.ContainsFunc(ascii, func(c rune) bool { return !has(c) }):
		return slices.Concat(ranges, spaces)
	}
	return ranges
}

// without returns sorted ranges less others.
func without(ranges, others []rune) (out []rune) {
	for i := 0; i < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		for j := 0; j < len(others) && lo <= hi; j += 2 {
			if others[j+1] < lo || others[j] > hi {
				continue
			}
			if lo < others[j] {
				out = append(out, lo, others[j]-1)
			}
			lo = others[j+1] + 1
		}
		if lo <= hi {
			out = append(out, lo, hi)
		}
	}
	return out
}

// unicodeEscape matches the escapes of ECMA-262 that RE2 lacks, and other escapes, which it skips.
var unicodeEscape = regexp.MustCompile(`\\(?:u\{[0-9a-fA-F]{1,6}\}|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|` +
	`u[0-9a-fA-F]{4}|c[A-Za-z]|(?s:.))`)

// fromECMA writes a pattern of ECMA-262 in RE2's syntax, as far as they differ in escapes.
func fromECMA(pattern string) string {
	return unicodeEscape.ReplaceAllStringFunc(pattern, func(e string) string {
		switch {
		case e[1] == 'c' && len(e) == 3:
			return fmt.Sprintf(`\x{%x}`, e[2]%32)
		case e[1] != 'u' || len(e) < 6 && e[len(e)-1] != '}':
			return e
		case e[2] == '{':
			return `\x` + e[2:]
		}
		c, _ := strconv.ParseUint(e[2:6], 16, 32)
		if len(e) == 12 {
			low, _ := strconv.ParseUint(e[8:], 16, 32)
			c = uint64(utf16.DecodeRune(rune(c), rune(low)))
		}
		return fmt.Sprintf(`\x{%x}`, c)
	})
}

// maxBranches bounds the alternatives of a pattern that ^ and $ make.
const maxBranches = 256

var errAnchors = errors.New(`the pattern repeats ^ or $, or it has \b, \B or the flag m: a constraint cannot follow that`)

// unanchored takes an expression apart into alternative rows, in which ^ and $ stand alone.
func unanchored(re *syntax.Regexp) ([][]*syntax.Regexp, error) {
	if !hasAnchor(re) || re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText {
		return [][]*syntax.Regexp{{re}}, nil
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpConcat:
		rows := [][]*syntax.Regexp{nil}
		for _, sub := range re.Sub {
			some, err := unanchored(sub)
			if err != nil {
				return nil, err
			}
			if len(rows)*len(some) > maxBranches {
				return nil, fmt.Errorf("the pattern has more than %d alternatives with ^ and $", maxBranches)
			}
			var more [][]*syntax.Regexp
			for _, row := range rows {
				for _, x := range some {
					more = append(more, slices.Concat(row, x))
				}
			}
			rows = more
		}
		return rows, nil
	case syntax.OpAlternate, syntax.OpQuest:
		var rows [][]*syntax.Regexp
		if re.Op == syntax.OpQuest {
			rows = append(rows, nil)
		}
		for _, sub := range re.Sub {
			some, err := unanchored(sub)
			if err != nil {
				return nil, err
			}
			if rows = append(rows, some...); len(rows) > maxBranches {
				return nil, fmt.Errorf("the pattern has more than %d alternatives with ^ and $", maxBranches)
			}
		}
		return rows, nil
	}
	return nil, errAnchors
}

func hasAnchor(re *syntax.Regexp) bool {
	return syntax.OpBeginLine <= re.Op && re.Op <= syntax.OpNoWordBoundary || slices.ContainsFunc(re.Sub, hasAnchor)
}
