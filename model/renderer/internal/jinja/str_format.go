package jinja

import (
	"strconv"
	"strings"
)

// formatText is str.format with {}, {0}, {name}, {a.b}, {a[b]} and !r, !s. A format specification
// after a colon is an error.
func formatText(r *runtime, s string, args []Value, named *Map) Value {
	w := r.textWriter()
	next := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			i = len(s)
		}
		r.spend(1)
		w.add(s[:i])
		if s = s[i:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			w.add(s[:1])
			s = s[2:]
			continue
		}
		end := strings.IndexByte(s, '}')
		if s[0] == '}' || end < 0 {
			panic(typeErrorf("single '%c' encountered in format string", s[0]))
		}
		w.add(formatField(r, s[1:end], args, named, &next))
		s = s[end+1:]
	}
	r.spend(w.Len() / 64)
	return w.String()
}

// formatField returns the text of one replacement field. next counts the fields without a number;
// it is -1 after a field with a number.
func formatField(r *runtime, field string, args []Value, named *Map, next *int) string {
	path, conversion, converted := strings.Cut(field, "!")
	if strings.ContainsAny(field, ":{") {
		panic(failf(Unsupported, "a format specification in str.format: {%s}", field))
	}
	first := path
	if i := strings.IndexAny(path, ".["); i >= 0 {
		first = path[:i]
	}
	path = path[len(first):]
	v := fieldArgument(first, args, named, next)
	for path != "" {
		v, path = formatStep(r, v, path)
	}
	switch {
	case converted && conversion == "r":
		return r.repr(v)
	case converted && conversion != "s":
		panic(failf(Unsupported, "the conversion !%s in str.format", conversion))
	}
	return r.str(v)
}

func fieldArgument(first string, args []Value, named *Map, next *int) Value {
	index, err := strconv.Atoi(first)
	switch {
	case first == "":
		if *next < 0 {
			panic(typeErrorf("cannot switch from manual field specification to automatic field numbering"))
		}
		index = *next
		*next++
	case err == nil:
		if *next > 0 {
			panic(typeErrorf("cannot switch from automatic field numbering to manual field specification"))
		}
		*next = -1
	default:
		v, ok := named.Get(first)
		if !ok {
			panic(typeErrorf("str.format has no argument '%s'", first))
		}
		return v
	}
	if index < 0 || index >= len(args) {
		panic(typeErrorf("replacement index %d out of range for positional arguments", index))
	}
	return args[index]
}

// formatStep reads the first .name or [key] of path from v and returns the rest of the path.
func formatStep(r *runtime, v Value, path string) (Value, string) {
	if path[0] == '[' {
		key, rest, ok := strings.Cut(path[1:], "]")
		if !ok {
			panic(typeErrorf("missing ']' in format string"))
		}
		var k Value = key
		if n, err := strconv.ParseInt(key, 10, 64); err == nil {
			k = n
		}
		return r.getitem(v, k), rest
	}
	if path[0] != '.' {
		panic(typeErrorf("only '.' or '[' may follow ']' in format field specifier"))
	}
	id := path[1:]
	if i := strings.IndexAny(id, ".["); i >= 0 {
		id = id[:i]
	}
	return r.getattr(v, id), path[1+len(id):]
}
