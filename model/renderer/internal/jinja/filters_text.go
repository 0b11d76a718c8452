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
	"trim": {params: []string{"chars?"}, apply: func(r *runtime, v Value, a []Value) Value {
		return r.strip(soft(r, "trim", v), orDefault(a[0], nil), true, true)
	}},
	"replace":  {params: []string{"old", "new", "count?"}, apply: replaceFilter},
	"indent":   {params: []string{"width?", "first?", "blank?"}, apply: indentFilter},
	"truncate": {params: []string{"length?", "killwords?", "end?", "leeway?"}, apply: truncateFilter},
	"center": {params: []string{"width?"}, apply: func(r *runtime, v Value, a []Value) Value {
		s := soft(r, "center", v)
		width := wantInt("center", orDefault(a[0], int64(80)))
		return pad(r, s, width, " ", padBoth)
	}},
	"wordcount": {apply: func(r *runtime, v Value, _ []Value) Value {
		s := soft(r, "wordcount", v)
		r.spell(8 * len(s))
		return int64(len(words.FindAllStringIndex(s, -1)))
	}},
	"format": {raw: func(r *runtime, v Value, args []Value, named *Map) Value {
		s := soft(r, "format", v)
		if named.Len() == 0 {
			return printf(r, s, &Tuple{args})
		}
		if len(args) > 0 {
			panic(typeErrorf("format can't handle positional and keyword arguments at the same time"))
		}
		return printf(r, s, named)
	}},
}

var words = regexp.MustCompile(`[\p{L}\p{N}_]+`)

func onText(id string, f func(string) string) filterSpec {
	return filterSpec{apply: func(r *runtime, v Value, _ []Value) Value {
		s := soft(r, id, v)
		r.changeCase(id, s)
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

func replaceFilter(r *runtime, v Value, a []Value) Value {
	s := r.str(v)
	old := r.str(a[0])
	with := r.str(a[1])
	count := int64(-1)
	if c := orDefault(a[2], nil); c != nil {
		count = wantInt("replace", c)
	}
	return replace(r, s, old, with, count)
}

func replace(r *runtime, s, old, with string, count int64) Value {
	n := int64(strings.Count(s, old))
	if count >= 0 {
		n = min(n, count)
	}
	if grown := int64(len(with) - len(old)); grown > 0 && n > int64(r.limits.Size)/grown {
		panic(tooLarge(r.limits.Size))
	}
	r.room(len(s) + int(n)*max(0, len(with)-len(old)))
	return strings.Replace(s, old, with, int(n))
}

func indentFilter(r *runtime, v Value, a []Value) Value {
	s := wantText("indent", v)
	indent, isText := textOf(orDefault(a[0], int64(4)))
	if !isText {
		width := wantInt("indent", orDefault(a[0], int64(4)))
		spaces := r.repeat(" ", width)
		indent = spaces.(string)
	}
	blank := truth(orDefault(a[2], false))
	lines := splitLines(s+"\n", false)
	r.spend(3 * len(lines))
	w := &limitedText{limit: r.limits.Size}
	for i, l := range lines {
		if i > 0 {
			w.add("\n")
		}
		if i > 0 && (l != "" || blank) || i == 0 && truth(orDefault(a[1], false)) {
			l = indent + l
		}
		w.add(l)
	}
	r.spend(w.Len() / 64)
	return w.String()
}

func truncateFilter(r *runtime, v Value, a []Value) Value {
	width := wantInt("truncate", orDefault(a[0], int64(255)))
	end := wantText("truncate", orDefault(a[2], "..."))
	leeway := int64(5)
	if l := orDefault(a[3], nil); l != nil {
		leeway = wantInt("truncate", l)
	}
	tail := int64(utf8.RuneCountInString(end))
	if width < tail || leeway < 0 {
		panic(typeErrorf("truncate expects length >= %d and leeway >= 0", tail))
	}
	n := length(v)
	if n <= width+leeway {
		return v
	}
	s := wantText("truncate", v)
	cut := string([]rune(s)[:width-tail])
	if i := strings.LastIndex(cut, " "); i >= 0 && !truth(orDefault(a[1], false)) {
		cut = cut[:i]
	}
	return cut + end
}
