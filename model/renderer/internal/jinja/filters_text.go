package jinja

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// textFilters work on text; they convert any other input with str().
var textFilters = map[string]builtin{
	"upper":      changed(upper),
	"lower":      changed(lower),
	"capitalize": changed(capitalize),
	"title":      changed(titleWords),
	"trim":       strip(true, true),
	"replace": {"old new count?", func(c *input) Value {
		count := int64(-1)
		if n := c.or(2, nil); n != nil {
			count = wantInt("replace", n)
		}
		return c.replace(c.r.str(c.self), c.r.str(c.args[0]), c.r.str(c.args[1]), count)
	}},
	"indent":   {"width? first? blank?", indentFilter},
	"truncate": {"length? killwords? end? leeway?", truncateFilter},
	"center":   {"width?", func(c *input) Value { return c.pad(c.str(), c.int(0, 80), " ", padBoth) }},
	"wordcount": {"", func(c *input) Value {
		s := c.str()
		c.r.spell(8 * len(s))
		return int64(len(words.FindAllStringIndex(s, -1)))
	}},
	"format": {"*", func(c *input) Value {
		switch s := c.str(); {
		case c.named.Len() == 0:
			return printf(c.r, s, &Tuple{c.args})
		case len(c.args) > 0:
			panic(typeErrorf("format can't handle positional and keyword arguments at the same time"))
		default:
			return printf(c.r, s, c.named)
		}
	}},
}

var words = regexp.MustCompile(`[\p{L}\p{N}_]+`)

// changed returns the filter or method that changes the case of a text.
func changed(f func(string) string) builtin {
	return builtin{"", func(c *input) Value {
		s := c.str()
		c.r.changeCase(c.name, s)
		return f(s)
	}}
}

// titleWords is Jinja's title filter: words begin after spaces, dashes and opening brackets.
func titleWords(s string) string {
	var b strings.Builder
	for s != "" {
		end := strings.IndexFunc(s, wordBreak)
		if end < 0 {
			end = len(s)
		}
		if end > 0 {
			_, n := utf8.DecodeRuneInString(s)
			b.WriteString(upper(s[:n]) + lower(s[n:end]))
		}
		next := strings.IndexFunc(s[end:], func(c rune) bool { return !wordBreak(c) })
		if next < 0 {
			next = len(s) - end
		}
		b.WriteString(s[end : end+next])
		s = s[end+next:]
	}
	return b.String()
}

func wordBreak(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) }

// replace replaces the first count texts, all of them if it is negative.
func (c *input) replace(s, old, with string, count int64) Value {
	n := int64(strings.Count(s, old))
	if count >= 0 {
		n = min(n, count)
	}
	if grown := int64(len(with) - len(old)); grown > 0 && n > int64(c.r.limits.Size)/grown {
		panic(tooLarge(c.r.limits.Size))
	}
	c.r.room(len(s) + int(n)*max(0, len(with)-len(old)))
	return strings.Replace(s, old, with, int(n))
}

func indentFilter(c *input) Value {
	s := c.wantText(c.self)
	indent := c.indent("width", c.or(0, int64(4)))
	lines := splitLines(s+"\n", false)
	c.r.spend(3 * len(lines))
	w := c.r.textWriter()
	for i, l := range lines {
		if i > 0 {
			w.add("\n")
		}
		if i > 0 && (l != "" || c.flag(2)) || i == 0 && c.flag(1) {
			l = indent + l
		}
		w.add(l)
	}
	c.r.spend(w.Len() / 64)
	return w.String()
}

func truncateFilter(c *input) Value {
	width, end, leeway := c.int(0, 255), c.text(2, "..."), int64(5)
	if l := c.or(3, nil); l != nil {
		leeway = wantInt("truncate", l)
	}
	tail := int64(utf8.RuneCountInString(end))
	if width < tail || leeway < 0 {
		panic(typeErrorf("truncate expects length >= %d and leeway >= 0", tail))
	}
	if length(c.self) <= width+leeway {
		return c.self
	}
	cut := string([]rune(c.wantText(c.self))[:width-tail])
	if i := strings.LastIndex(cut, " "); i >= 0 && !c.flag(1) {
		cut = cut[:i]
	}
	return cut + end
}
