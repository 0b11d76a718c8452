package jinja

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// textFilters work on text; they convert any other input with str().
var textFilters = map[string]filterSpec{
	"upper":      onText("upper", upper),
	"lower":      onText("lower", lower),
	"capitalize": onText("capitalize", capitalize),
	"title":      onText("title", titleWords),
	"trim": {params: []string{"chars?"}, apply: func(r *runtime, v Value, a []Value) (Value, error) {
		s, err := soft(r, "trim", v)
		if err != nil {
			return nil, err
		}
		return strip(s, orDefault(a[0], nil), true, true)
	}},
	"replace":  {params: []string{"old", "new", "count?"}, apply: replaceFilter},
	"indent":   {params: []string{"width?", "first?", "blank?"}, apply: indentFilter},
	"truncate": {params: []string{"length?", "killwords?", "end?", "leeway?"}, apply: truncateFilter},
	"center": {params: []string{"width?"}, apply: func(r *runtime, v Value, a []Value) (Value, error) {
		s, err := soft(r, "center", v)
		if err != nil {
			return nil, err
		}
		width, err := wantInt("center", orDefault(a[0], int64(80)))
		if err != nil {
			return nil, err
		}
		return pad(r, s, width, " ", padBoth)
	}},
	"wordcount": {apply: func(r *runtime, v Value, _ []Value) (Value, error) {
		s, err := soft(r, "wordcount", v)
		return int64(len(words.FindAllStringIndex(s, -1))), err
	}},
	"format": {raw: func(r *runtime, v Value, args []Value, named *Map) (Value, error) {
		s, err := soft(r, "format", v)
		if err != nil {
			return nil, err
		}
		if named.Len() == 0 {
			return printf(r, s, &Tuple{args})
		}
		if len(args) > 0 {
			return nil, typeErrorf("format can't handle positional and keyword arguments at the same time")
		}
		return printf(r, s, named)
	}},
}

var words = regexp.MustCompile(`[\p{L}\p{N}_]+`)

func onText(id string, f func(string) string) filterSpec {
	return filterSpec{apply: func(r *runtime, v Value, _ []Value) (Value, error) {
		s, err := soft(r, id, v)
		if err != nil {
			return nil, err
		}
		return f(s), r.room(3 * len(s))
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

func replaceFilter(r *runtime, v Value, a []Value) (Value, error) {
	s, err := r.str(v)
	if err != nil {
		return nil, err
	}
	old, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	with, err := r.str(a[1])
	if err != nil {
		return nil, err
	}
	count := int64(-1)
	if c := orDefault(a[2], nil); c != nil {
		if count, err = wantInt("replace", c); err != nil {
			return nil, err
		}
	}
	return replace(r, s, old, with, count)
}

func replace(r *runtime, s, old, with string, count int64) (Value, error) {
	n := int64(strings.Count(s, old))
	if count >= 0 {
		n = min(n, count)
	}
	if grown := int64(len(with) - len(old)); grown > 0 && n > int64(r.limits.Size)/grown {
		return nil, tooLarge(r.limits.Size)
	}
	if err := r.room(len(s) + int(n)*max(0, len(with)-len(old))); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, with, int(n)), nil
}

func indentFilter(r *runtime, v Value, a []Value) (Value, error) {
	s, err := wantText("indent", v)
	if err != nil {
		return nil, err
	}
	indent, isText := textOf(orDefault(a[0], int64(4)))
	if !isText {
		width, err := wantInt("indent", orDefault(a[0], int64(4)))
		if err != nil {
			return nil, err
		}
		spaces, err := r.repeat(" ", width)
		if err != nil {
			return nil, err
		}
		indent = spaces.(string)
	}
	blank := truth(orDefault(a[2], false))
	lines := splitLines(s+"\n", false)
	w := &limitedText{limit: r.limits.Size}
	for i, l := range lines {
		if i > 0 {
			if err := w.add("\n"); err != nil {
				return nil, err
			}
		}
		if i > 0 && (l != "" || blank) || i == 0 && truth(orDefault(a[1], false)) {
			l = indent + l
		}
		if err := w.add(l); err != nil {
			return nil, err
		}
	}
	return w.String(), r.spend(w.Len() / 64)
}

func truncateFilter(r *runtime, v Value, a []Value) (Value, error) {
	width, err := wantInt("truncate", orDefault(a[0], int64(255)))
	if err != nil {
		return nil, err
	}
	end, err := wantText("truncate", orDefault(a[2], "..."))
	if err != nil {
		return nil, err
	}
	leeway := int64(5)
	if l := orDefault(a[3], nil); l != nil {
		if leeway, err = wantInt("truncate", l); err != nil {
			return nil, err
		}
	}
	tail := int64(utf8.RuneCountInString(end))
	if width < tail || leeway < 0 {
		return nil, typeErrorf("truncate expects length >= %d and leeway >= 0", tail)
	}
	n, err := length(v)
	if err != nil || n <= width+leeway {
		return v, err
	}
	s, err := wantText("truncate", v)
	if err != nil {
		return nil, err
	}
	cut := string([]rune(s)[:width-tail])
	if i := strings.LastIndex(cut, " "); i >= 0 && !truth(orDefault(a[1], false)) {
		cut = cut[:i]
	}
	return cut + end, nil
}
