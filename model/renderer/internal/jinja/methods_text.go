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

// pad fills text to a width in characters.
func pad(r *runtime, s string, width int64, fill string, side int) Value {
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s
	}
	if n > int64(r.limits.Size)/int64(len(fill)) {
		panic(tooLarge(r.limits.Size))
	}
	left := int64(0)
	switch side {
	case padLeft:
		left = n
	case padBoth:
		left = n/2 + n&width&1 // as CPython splits an odd rest
	}
	r.room(int(n)*len(fill) + len(s))
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(n-left))
}

func padMethod(id string, side int) stringMethod {
	return stringMethod{params: []string{"width", "fillchar?"}, apply: func(r *runtime, s string, a []Value) Value {
		width := wantInt(id, a[0])
		fill := wantText(id, orDefault(a[1], " "))
		if utf8.RuneCountInString(fill) != 1 {
			panic(typeErrorf("the fill character must be exactly one character long"))
		}
		return pad(r, s, width, fill, side)
	}}
}

func zfill(r *runtime, s string, a []Value) Value {
	width := wantInt("zfill", a[0])
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	padded := pad(r, s, width-int64(len(sign)), "0", padLeft)
	return sign + padded.(string)
}

func expandTabs(r *runtime, s string, a []Value) Value {
	size := wantInt("expandtabs", orDefault(a[0], int64(8)))
	if size > 1000 {
		panic(failf(Unsupported, "tabs of more than 1000 columns"))
	}
	w := &limitedText{limit: r.limits.Size}
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
	r.spend(max(w.Len(), len(s)) / 4)
	return w.String()
}

func joinMethod(r *runtime, s string, a []Value) Value {
	it := r.iterate(a[0])
	w := &limitedText{limit: r.limits.Size}
	for i := 0; ; i++ {
		item, ok := it.next()
		if !ok {
			r.spend(w.Len() / 64)
			return w.String()
		}
		part, isText := item.(string)
		if _, marked := item.(markup); marked {
			panic(failf(Unsupported, "join of text marked safe"))
		}
		if !isText {
			panic(typeErrorf("sequence item %d: expected str instance, %s found", i, typeName(item)))
		}
		if i > 0 {
			part = s + part
		}
		w.add(part)
	}
}

func replaceMethod(r *runtime, s string, a []Value) Value {
	old := wantText("replace", a[0])
	with := wantText("replace", a[1])
	count := wantInt("replace", orDefault(a[2], int64(-1)))
	return replace(r, s, old, with, count)
}

func trimmed(trim func(s, part string) string) stringMethod {
	return stringMethod{params: []string{"part"}, apply: func(_ *runtime, s string, a []Value) Value {
		part := wantText("removeprefix", a[0])
		return trim(s, part)
	}}
}
