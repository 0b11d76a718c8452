package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// stringMethod describes a method of Python's str; see [filterSpec] for the fields.
type stringMethod struct {
	params []string
	apply  func(r *runtime, s string, a []Value) Value
	raw    func(r *runtime, s string, args []Value, named *Map) Value
}

func bindString(id, s string, m stringMethod) *function {
	return &function{id, func(r *runtime, args []Value, named *Map) Value {
		r.read(s)
		if m.raw != nil {
			return m.raw(r, s, args, named)
		}
		bound := bind(id, args, named, m.params...)
		return m.apply(r, s, bound)
	}}
}

var stringMethods map[string]stringMethod

func init() {
	stringMethods = map[string]stringMethod{
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"strip":      stripMethod(true, true),
		"lstrip":     stripMethod(true, false),
		"rstrip":     stripMethod(false, true),
		"split":      splitMethod(false),
		"rsplit":     splitMethod(true),
		"splitlines": {params: []string{"keepends?"}, apply: func(r *runtime, s string, a []Value) Value {
			return r.texts(splitLines(s, truth(orDefault(a[0], false))))
		}},
		"partition":    partition(strings.Index, false),
		"rpartition":   partition(strings.LastIndex, true),
		"find":         search("find", strings.Index, false),
		"rfind":        search("rfind", strings.LastIndex, false),
		"index":        search("index", strings.Index, true),
		"rindex":       search("rindex", strings.LastIndex, true),
		"count":        search("count", countNonEmpty, false),
		"join":         {params: []string{"iterable"}, apply: joinMethod},
		"replace":      {params: []string{"old", "new", "count?"}, apply: replaceMethod},
		"removeprefix": trimmed(strings.TrimPrefix),
		"removesuffix": trimmed(strings.TrimSuffix),
		"zfill":        {params: []string{"width"}, apply: zfill},
		"expandtabs":   {params: []string{"tabsize?"}, apply: expandTabs},
		"format":       {raw: formatMethod},
		"format_map": {params: []string{"mapping"}, apply: func(r *runtime, s string, a []Value) Value {
			m, ok := a[0].(*Map)
			if !ok {
				panic(failf(Unsupported, "format_map of a %s", typeName(a[0])))
			}
			return formatMethod(r, s, nil, m)
		}},
	}
	for id, side := range map[string]int{"center": padBoth, "ljust": padRight, "rjust": padLeft} {
		stringMethods[id] = padMethod(id, side)
	}
	for id, f := range map[string]func(string) string{
		"upper": upper, "lower": lower, "capitalize": capitalize, "title": titleCase, "swapcase": swapCase, "casefold": caseFold,
	} {
		stringMethods[id] = stringMethod{apply: func(r *runtime, s string, _ []Value) Value {
			r.changeCase(id, s)
			return f(s)
		}}
	}
	for id, is := range map[string]func(string) bool{
		"isupper": isUpper, "islower": isLower, "istitle": isTitle, "isascii": ascii,
		"isspace":     func(s string) bool { return all(s, isSpace) },
		"isalpha":     func(s string) bool { return all(s, unicode.IsLetter) },
		"isdecimal":   func(s string) bool { return all(s, unicode.IsDigit) },
		"isprintable": func(s string) bool { return s == "" || all(s, unicode.IsPrint) },
		"isidentifier": func(s string) bool {
			return s != "" && nameEnd(s) == len(s) && !unicode.IsDigit([]rune(s)[0])
		},
	} {
		stringMethods[id] = stringMethod{apply: func(r *runtime, s string, _ []Value) Value {
			r.spell(len(s))
			return is(s)
		}}
	}
	for id, is := range map[string]func(string) bool{
		"isdigit":   func(s string) bool { return all(s, unicode.IsDigit) },
		"isnumeric": func(s string) bool { return all(s, unicode.IsDigit) },
		"isalnum": func(s string) bool {
			return all(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) })
		},
	} {
		stringMethods[id] = stringMethod{apply: func(r *runtime, s string, _ []Value) Value {
			r.spell(2 * len(s))
			if strings.ContainsFunc(s, func(c rune) bool {
				return unicode.Is(unicode.No, c) || unicode.Is(unicode.Nl, c) || c > unicode.MaxLatin1 && unicode.Is(unicode.Han, c)
			}) {
				panic(failf(Unsupported, "%s of numerals that are not decimal digits", id))
			}
			return is(s)
		}}
	}
}

func caseFold(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return folder.String(s)
}

// affix returns the method startswith or endswith. An argument that is a tuple lists alternatives.
func affix(has func(s, part string) bool) stringMethod {
	return stringMethod{params: []string{"prefix", "start?", "end?"}, apply: func(r *runtime, s string, a []Value) Value {
		s, _, inside := window(r, s, a[1], a[2])
		options := []Value{a[0]}
		if t, ok := a[0].(*Tuple); ok {
			options = t.Items
		}
		for _, option := range options {
			part := wantText("startswith", option)
			r.room(min(len(part), len(s)))
			if inside && has(s, part) {
				return true
			}
		}
		return false
	}}
}

// window returns the characters [start, end) of s, both bounds optional as in Python, and the index
// of the first. inside is false if start lies beyond the end of s.
func window(r *runtime, s string, start, end Value) (cut string, first int64, inside bool) {
	if !given(start) && !given(end) {
		return s, 0, true
	}
	var bounds [3]*int64
	for i, v := range []Value{start, end} {
		if v = orDefault(v, nil); v != nil {
			n := wantInt("a bound", v)
			bounds[i] = &n
		}
	}
	n := int64(utf8.RuneCountInString(s))
	first, _, _ = sliceRange(n, bounds)
	inside = bounds[0] == nil || *bounds[0] <= n
	if bounds[1] != nil && inside {
		stop := *bounds[1]
		if stop < 0 {
			stop = max(0, stop+n)
		}
		inside = first <= stop
	}
	return r.sliceText(s, bounds).(string), first, inside
}

func stripMethod(left, right bool) stringMethod {
	return stringMethod{params: []string{"chars?"}, apply: func(r *runtime, s string, a []Value) Value {
		return r.strip(s, orDefault(a[0], nil), left, right)
	}}
}

func splitMethod(fromRight bool) stringMethod {
	return stringMethod{params: []string{"sep?", "maxsplit?"}, apply: func(r *runtime, s string, a []Value) Value {
		limit := wantInt("split", orDefault(a[1], int64(-1)))
		parts := split(s, orDefault(a[0], nil), limit, fromRight)
		return r.texts(parts)
	}}
}

func partition(find func(s, sep string) int, fromRight bool) stringMethod {
	return stringMethod{params: []string{"sep"}, apply: func(_ *runtime, s string, a []Value) Value {
		sep := wantText("partition", a[0])
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
func search(id string, find func(s, sub string) int, must bool) stringMethod {
	return stringMethod{params: []string{"sub", "start?", "end?"}, apply: func(r *runtime, s string, a []Value) Value {
		sub := wantText(id, a[0])
		s, first, inside := window(r, s, a[1], a[2])
		i := -1
		if inside {
			i = find(s, sub)
		}
		switch {
		case id == "count":
			return int64(max(i, 0))
		case i < 0 && must:
			panic(typeErrorf("substring not found"))
		case i < 0:
			return int64(-1)
		}
		return first + int64(utf8.RuneCountInString(s[:i]))
	}}
}
