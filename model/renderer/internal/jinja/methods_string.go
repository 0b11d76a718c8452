package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func init() { // of Python's str
	methods["str"] = map[string]builtin{
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"strip":      strip(true, true),
		"lstrip":     strip(true, false),
		"rstrip":     strip(false, true),
		"split":      splitMethod(false),
		"rsplit":     splitMethod(true),
		"splitlines": {"keepends?", func(c *input) Value { return c.texts(splitLines(c.str(), c.flag(0))) }},
		"partition":  partition(strings.Index, false),
		"rpartition": partition(strings.LastIndex, true),
		"find":       search(strings.Index, false),
		"rfind":      search(strings.LastIndex, false),
		"index":      search(strings.Index, true),
		"rindex":     search(strings.LastIndex, true),
		"count":      search(countNonEmpty, false),
		"join":       {"iterable", joinMethod},
		"replace": {"old new count?", func(c *input) Value {
			return c.replace(c.str(), c.text(0), c.text(1), c.int(2, -1))
		}},
		"removeprefix": {"part", func(c *input) Value { return strings.TrimPrefix(c.str(), c.text(0)) }},
		"removesuffix": {"part", func(c *input) Value { return strings.TrimSuffix(c.str(), c.text(0)) }},
		"zfill":        {"width", zfill},
		"expandtabs":   {"tabsize?", expandTabs},
		"format":       {"*", func(c *input) Value { return formatText(c.r, c.str(), c.args, c.named) }},
		"format_map": {"mapping", func(c *input) Value {
			m, ok := c.args[0].(*Map)
			if !ok {
				panic(failf(Unsupported, "format_map of a %s", typeName(c.args[0])))
			}
			return formatText(c.r, c.str(), nil, m)
		}},
		"upper": changed(upper), "lower": changed(lower), "capitalize": changed(capitalize), "title": changed(titleCase),
		"swapcase": changed(swapCase), "casefold": changed(caseFold),
		"isupper": spelled(isUpper), "islower": spelled(isLower), "istitle": spelled(isTitle), "isascii": spelled(ascii),
		"isspace":     spelled(func(s string) bool { return all(s, isSpace) }),
		"isalpha":     spelled(func(s string) bool { return all(s, unicode.IsLetter) }),
		"isdecimal":   spelled(func(s string) bool { return all(s, unicode.IsDigit) }),
		"isprintable": spelled(func(s string) bool { return s == "" || all(s, unicode.IsPrint) }),
		"isidentifier": spelled(func(s string) bool {
			return s != "" && nameEnd(s) == len(s) && !unicode.IsDigit([]rune(s)[0])
		}),
		"isdigit": numerals(unicode.IsDigit), "isnumeric": numerals(unicode.IsDigit),
		"isalnum": numerals(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }),
	}
	for id, side := range map[string]int{"center": padBoth, "ljust": padRight, "rjust": padLeft} {
		methods["str"][id] = builtin{"width fillchar?", func(c *input) Value {
			width, fill := c.int(0), c.text(1, " ")
			if utf8.RuneCountInString(fill) != 1 {
				panic(typeErrorf("the fill character must be exactly one character long"))
			}
			return c.pad(c.str(), width, fill, side)
		}}
	}
}

// numerals returns the method that reports whether is accepts all characters, among which numerals may be.
func numerals(is func(c rune) bool) builtin {
	return builtin{"", func(c *input) Value {
		s := c.str()
		c.r.spell(2 * len(s))
		if strings.ContainsFunc(s, func(c rune) bool {
			return unicode.Is(unicode.No, c) || unicode.Is(unicode.Nl, c) || c > unicode.MaxLatin1 && unicode.Is(unicode.Han, c)
		}) {
			panic(failf(Unsupported, "%s of numerals that are not decimal digits", c.name))
		}
		return all(s, is)
	}}
}

func caseFold(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return folder.String(s)
}

// affix returns the method startswith or endswith. An argument that is a tuple lists alternatives.
func affix(has func(s, part string) bool) builtin {
	return builtin{"prefix start? end?", func(c *input) Value {
		s, _, inside := c.window()
		options := []Value{c.args[0]}
		if t, ok := c.args[0].(*Tuple); ok {
			options = t.Items
		}
		for _, option := range options {
			part := c.wantText(option)
			c.r.room(min(len(part), len(s)))
			if inside && has(s, part) {
				return true
			}
		}
		return false
	}}
}

// strip returns the filter or method that removes the characters of its argument from the left side, the
// right side or both, white space if the argument is None.
func strip(left, right bool) builtin {
	return builtin{"chars?", func(c *input) Value {
		s, cut := c.str(), isSpace
		c.r.spell(len(s))
		if set := c.or(0, nil); set != nil {
			text, chars := c.wantText(set), map[rune]bool{}
			c.r.spend(len(text))
			for _, c := range text {
				chars[c] = true
			}
			cut = func(c rune) bool { return chars[c] }
		}
		if left {
			s = strings.TrimLeftFunc(s, cut)
		}
		if right {
			s = strings.TrimRightFunc(s, cut)
		}
		return s
	}}
}

func splitMethod(fromRight bool) builtin {
	return builtin{"sep? maxsplit?", func(c *input) Value {
		limit := c.int(1, -1)
		if c.or(0, nil) == nil {
			return c.texts(splitSpace(c.str(), limit, fromRight))
		}
		return c.texts(split(c.str(), c.text(0), limit, fromRight))
	}}
}

func partition(find func(s, sep string) int, fromRight bool) builtin {
	return builtin{"sep", func(c *input) Value {
		s, sep := c.str(), c.text(0)
		if sep == "" {
			panic(typeErrorf("empty separator"))
		}
		i := find(s, sep)
		switch {
		case i >= 0:
			return &Tuple{[]Value{s[:i], sep, s[i+len(sep):]}}
		case fromRight:
			return &Tuple{[]Value{"", "", s}}
		}
		return &Tuple{[]Value{s, "", ""}}
	}}
}

func countNonEmpty(s, sub string) int {
	if sub == "" {
		return utf8.RuneCountInString(s) + 1
	}
	return strings.Count(s, sub)
}

// search returns the method find, index or count. Positions are in characters.
func search(find func(s, sub string) int, must bool) builtin {
	return builtin{"sub start? end?", func(c *input) Value {
		sub := c.text(0)
		s, first, inside := c.window()
		i := -1
		if inside {
			i = find(s, sub)
		}
		switch {
		case c.name == "count":
			return int64(max(i, 0))
		case i < 0 && must:
			panic(typeErrorf("substring not found"))
		case i < 0:
			return int64(-1)
		}
		return first + int64(utf8.RuneCountInString(s[:i]))
	}}
}
