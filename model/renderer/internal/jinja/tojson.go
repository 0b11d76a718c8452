package jinja

import (
	"fmt"
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
)

// jsonStyle holds the arguments of the tojson filter of transformers, which are those of Python's
// json.dumps.
type jsonStyle struct {
	run       *runtime
	ascii     bool
	pretty    bool // one item a line
	indent    string
	item, key string // separators
	sortKeys  bool
}

func (s *jsonStyle) write(w *limitedText, v Value, depth int) {
	if depth > maxValueDepth {
		panic(tooDeep())
	}
	switch x := v.(type) {
	case nil, bool, int64, float64, *big.Int:
		w.add(jsonScalar(x))
	case string:
		w.add(s.quote(x))
	case markup:
		w.add(s.quote(string(x)))
	case *List:
		s.items(w, "[", len(x.Items), "]", depth, func(i int) { s.write(w, x.Items[i], depth+1) })
	case *Tuple:
		s.items(w, "[", len(x.Items), "]", depth, func(i int) { s.write(w, x.Items[i], depth+1) })
	case *Map:
		s.object(w, x, depth)
	default:
		panic(typeErrorf("object of type %s is not JSON serializable", typeName(v)))
	}
}

func jsonScalar(v Value) string {
	switch x := v.(type) {
	case bool:
		if x {
			return "true"
		}
		return "false"
	case int64:
		return strconv.FormatInt(x, 10)
	case *big.Int:
		return x.String()
	case float64:
		switch {
		case math.IsNaN(x):
			return "NaN"
		case math.IsInf(x, 1):
			return "Infinity"
		case math.IsInf(x, -1):
			return "-Infinity"
		}
		return formatFloat(x)
	}
	return "null"
}

func (s *jsonStyle) items(w *limitedText, open string, n int, end string, depth int, write func(i int)) {
	if n == 0 {
		w.add(open + end)
		return
	}
	w.add(open)
	for i := range n {
		if i > 0 {
			w.add(s.item)
		}
		s.newline(w, depth+1)
		write(i)
	}
	s.newline(w, depth)
	w.add(end)
}

func (s *jsonStyle) newline(w *limitedText, depth int) {
	if !s.pretty {
		return
	}
	if len(s.indent)*depth > w.limit {
		panic(tooLarge(w.limit))
	}
	w.add("\n" + strings.Repeat(s.indent, depth))
}

func (s *jsonStyle) object(w *limitedText, m *Map, depth int) {
	order := make([]int, m.Len())
	for i := range order {
		order[i] = i
	}
	if s.sortKeys {
		sort.SliceStable(order, func(a, b int) bool {
			return s.run.lessThan(m.keys[order[a]], m.keys[order[b]], 0)
		})
	}
	s.items(w, "{", m.Len(), "}", depth, func(i int) {
		var key string
		switch k := m.keys[order[i]].(type) {
		case string:
			key = k
		case markup:
			key = string(k)
		case nil, bool, int64, float64, *big.Int:
			key = jsonScalar(k)
		default:
			panic(typeErrorf("keys must be str, int, float, bool or None, not %s", typeName(k)))
		}
		w.add(s.quote(key) + s.key)
		s.write(w, m.vals[order[i]], depth+1)
	})
}

func (s *jsonStyle) quote(text string) string {
	return quoted(text, '"', func(c rune) string {
		switch {
		case c == '\b':
			return `\b`
		case c == '\f':
			return `\f`
		case c < 0x20 || s.ascii && c >= 0x7f && c < 0x10000:
			return fmt.Sprintf(`\u%04x`, c)
		case s.ascii && c >= 0x10000:
			high, low := utf16.EncodeRune(c)
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return ""
	})
}
