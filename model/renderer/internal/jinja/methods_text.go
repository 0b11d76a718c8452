package jinja

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

var folder = cases.Fold()

const (
	padLeft = iota
	padRight
	padBoth
)

// pad fills a text to a width in characters.
func (c *input) pad(s string, width int64, fill string, side int) Value {
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s
	}
	if n > int64(c.r.limits.Size)/int64(len(fill)) {
		panic(tooLarge(c.r.limits.Size))
	}
	left := int64(0)
	switch side {
	case padLeft:
		left = n
	case padBoth:
		left = n/2 + n&width&1 // as CPython splits an odd rest
	}
	c.r.room(int(n)*len(fill) + len(s))
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(n-left))
}

func zfill(c *input) Value {
	s, sign := c.str(), ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	return sign + c.pad(s, c.int(0)-int64(len(sign)), "0", padLeft).(string)
}

func expandTabs(c *input) Value {
	s, size := c.str(), c.int(0, 8)
	if size > 1000 {
		panic(failf(Unsupported, "tabs of more than 1000 columns"))
	}
	w := c.r.textWriter()
	column := int64(0)
	for _, c := range s {
		part := string(c)
		switch c {
		case '\t':
			n := int64(0)
			if size > 0 {
				n = size - column%size
			}
			part = strings.Repeat(" ", int(n))
			column += n
		case '\n', '\r':
			column = 0
		default:
			column++
		}
		w.add(part)
	}
	c.r.spend(max(w.Len(), len(s)) / 4)
	return w.String()
}

func joinMethod(c *input) Value {
	return c.join(c.args[0], c.str(), func(i int, item Value) string {
		switch part := item.(type) {
		case string:
			return part
		case markup:
			panic(failf(Unsupported, "join of text marked safe"))
		}
		panic(typeErrorf("sequence item %d: expected str instance, %s found", i, typeName(item)))
	})
}
