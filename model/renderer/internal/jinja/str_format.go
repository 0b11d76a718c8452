package jinja

import (
	"strconv"
	"strings"
)

// formatMethod is str.format with {}, {0}, {name}, {a.b}, {a[b]} and !r, !s. A format specification
// after a colon is an error.
func formatMethod(r *runtime, s string, args []Value, named *Map) (Value, error) {
	w := &limitedText{limit: r.limits.Size}
	next := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			i = len(s)
		}
		if err := w.add(s[:i]); err != nil {
			return nil, err
		}
		if s = s[i:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			if err := w.add(s[:1]); err != nil {
				return nil, err
			}
			s = s[2:]
			continue
		}
		end := strings.IndexByte(s, '}')
		if s[0] == '}' || end < 0 {
			return nil, typeErrorf("single '%c' encountered in format string", s[0])
		}
		text, err := formatField(r, s[1:end], args, named, &next)
		if err != nil {
			return nil, err
		}
		if err := w.add(text); err != nil {
			return nil, err
		}
		s = s[end+1:]
	}
	return w.String(), r.spend(w.Len() / 64)
}

// formatField returns the text of one replacement field. next counts the fields without a number;
// it is -1 after a field with a number.
func formatField(r *runtime, field string, args []Value, named *Map, next *int) (string, error) {
	path, conversion, converted := strings.Cut(field, "!")
	if strings.ContainsAny(field, ":{") {
		return "", failf(Unsupported, "a format specification in str.format: {%s}", field)
	}
	first := path
	if i := strings.IndexAny(path, ".["); i >= 0 {
		first = path[:i]
	}
	path = path[len(first):]
	v, err := fieldArgument(first, args, named, next)
	for err == nil && path != "" {
		v, path, err = formatStep(r, v, path)
	}
	if err != nil {
		return "", err
	}
	switch {
	case converted && conversion == "r":
		return r.repr(v)
	case converted && conversion != "s":
		return "", failf(Unsupported, "the conversion !%s in str.format", conversion)
	}
	return r.str(v)
}

func fieldArgument(first string, args []Value, named *Map, next *int) (Value, error) {
	index, err := strconv.Atoi(first)
	switch {
	case first == "":
		if *next < 0 {
			return nil, typeErrorf("cannot switch from manual field specification to automatic field numbering")
		}
		index = *next
		*next++
	case err == nil:
		if *next > 0 {
			return nil, typeErrorf("cannot switch from automatic field numbering to manual field specification")
		}
		*next = -1
	default:
		v, ok := named.Get(first)
		if !ok {
			return nil, typeErrorf("str.format has no argument '%s'", first)
		}
		return v, nil
	}
	if index < 0 || index >= len(args) {
		return nil, typeErrorf("replacement index %d out of range for positional arguments", index)
	}
	return args[index], nil
}

// formatStep reads the first .name or [key] of path from v and returns the rest of the path.
func formatStep(r *runtime, v Value, path string) (Value, string, error) {
	if path[0] == '[' {
		key, rest, ok := strings.Cut(path[1:], "]")
		if !ok {
			return nil, "", typeErrorf("missing ']' in format string")
		}
		var k Value = key
		if n, err := strconv.ParseInt(key, 10, 64); err == nil {
			k = n
		}
		v, err := r.getitem(v, k)
		return v, rest, err
	}
	if path[0] != '.' {
		return nil, "", typeErrorf("only '.' or '[' may follow ']' in format field specifier")
	}
	id := path[1:]
	if i := strings.IndexAny(id, ".["); i >= 0 {
		id = id[:i]
	}
	v, err := r.getattr(v, id)
	return v, path[1+len(id):], err
}
