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
func pad(r *runtime, s string, width int64, fill string, side int) (Value, error) {
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s, nil
	}
	if n > int64(r.limits.Size)/int64(len(fill)) {
		return nil, tooLarge(r.limits.Size)
	}
	left := int64(0)
	switch side {
	case padLeft:
		left = n
	case padBoth:
		left = n/2 + n&width&1 // as CPython splits an odd rest
	}
	if err := r.room(int(n)*len(fill) + len(s)); err != nil {
		return nil, err
	}
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(n-left)), nil
}

func padMethod(id string, side int) stringMethod {
	return stringMethod{params: []string{"width", "fillchar?"}, apply: func(r *runtime, s string, a []Value) (Value, error) {
		width, err := wantInt(id, a[0])
		if err != nil {
			return nil, err
		}
		fill, err := wantText(id, orDefault(a[1], " "))
		if err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(fill) != 1 {
			return nil, typeErrorf("the fill character must be exactly one character long")
		}
		return pad(r, s, width, fill, side)
	}}
}

func zfill(r *runtime, s string, a []Value) (Value, error) {
	width, err := wantInt("zfill", a[0])
	if err != nil {
		return nil, err
	}
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	padded, err := pad(r, s, width-int64(len(sign)), "0", padLeft)
	if err != nil {
		return nil, err
	}
	return sign + padded.(string), nil
}

func expandTabs(r *runtime, s string, a []Value) (Value, error) {
	size, err := wantInt("expandtabs", orDefault(a[0], int64(8)))
	if err != nil {
		return nil, err
	}
	if size > 1000 {
		return nil, failf(Unsupported, "tabs of more than 1000 columns")
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
		if err := w.add(part); err != nil {
			return nil, err
		}
	}
	return w.String(), r.spend(w.Len() / 64)
}

func joinMethod(r *runtime, s string, a []Value) (Value, error) {
	it, err := r.iterate(a[0])
	if err != nil {
		return nil, err
	}
	w := &limitedText{limit: r.limits.Size}
	for i := 0; ; i++ {
		item, ok, err := it.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return w.String(), r.spend(w.Len() / 64)
		}
		part, isText := item.(string)
		if _, marked := item.(markup); marked {
			return nil, failf(Unsupported, "join of text marked safe")
		}
		if !isText {
			return nil, typeErrorf("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
		if i > 0 {
			part = s + part
		}
		if err := w.add(part); err != nil {
			return nil, err
		}
	}
}

func replaceMethod(r *runtime, s string, a []Value) (Value, error) {
	old, err := wantText("replace", a[0])
	if err != nil {
		return nil, err
	}
	with, err := wantText("replace", a[1])
	if err != nil {
		return nil, err
	}
	count, err := wantInt("replace", orDefault(a[2], int64(-1)))
	if err != nil {
		return nil, err
	}
	return replace(r, s, old, with, count)
}

func trimmed(trim func(s, part string) string) stringMethod {
	return stringMethod{params: []string{"part"}, apply: func(_ *runtime, s string, a []Value) (Value, error) {
		part, err := wantText("removeprefix", a[0])
		if err != nil {
			return nil, err
		}
		return trim(s, part), nil
	}}
}
