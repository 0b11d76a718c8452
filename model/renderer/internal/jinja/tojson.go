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

func (s *jsonStyle) write(w *limitedText, v Value, depth int) error {
	if depth > maxValueDepth {
		return tooDeep()
	}
	switch x := v.(type) {
	case nil, bool, int64, float64, *big.Int:
		return w.add(jsonScalar(x))
	case string:
		return w.add(s.quote(x))
	case markup:
		return w.add(s.quote(string(x)))
	case *List:
		return s.items(w, "[", len(x.Items), "]", depth, func(i int) error { return s.write(w, x.Items[i], depth+1) })
	case *Tuple:
		return s.items(w, "[", len(x.Items), "]", depth, func(i int) error { return s.write(w, x.Items[i], depth+1) })
	case *Map:
		return s.object(w, x, depth)
	}
	return typeErrorf("object of type %s is not JSON serializable", typeName(v))
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

func (s *jsonStyle) items(w *limitedText, open string, n int, end string, depth int, write func(i int) error) error {
	if n == 0 {
		return w.add(open + end)
	}
	if err := w.add(open); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := w.add(s.item); err != nil {
				return err
			}
		}
		if err := s.newline(w, depth+1); err != nil {
			return err
		}
		if err := write(i); err != nil {
			return err
		}
	}
	if err := s.newline(w, depth); err != nil {
		return err
	}
	return w.add(end)
}

func (s *jsonStyle) newline(w *limitedText, depth int) error {
	if !s.pretty {
		return nil
	}
	if len(s.indent)*depth > w.limit {
		return tooLarge(w.limit)
	}
	return w.add("\n" + strings.Repeat(s.indent, depth))
}

func (s *jsonStyle) object(w *limitedText, m *Map, depth int) error {
	order := make([]int, m.Len())
	for i := range order {
		order[i] = i
	}
	if s.sortKeys {
		var failed error
		sort.SliceStable(order, func(a, b int) bool {
			less, err := s.run.lessThan(m.keys[order[a]], m.keys[order[b]], 0)
			if err != nil {
				failed = err
			}
			return less
		})
		if failed != nil {
			return failed
		}
	}
	return s.items(w, "{", m.Len(), "}", depth, func(i int) error {
		var key string
		switch k := m.keys[order[i]].(type) {
		case string:
			key = k
		case markup:
			key = string(k)
		case nil, bool, int64, float64, *big.Int:
			key = jsonScalar(k)
		default:
			return typeErrorf("keys must be str, int, float, bool or None, not %s", typeName(k))
		}
		if err := w.add(s.quote(key) + s.key); err != nil {
			return err
		}
		return s.write(w, m.vals[order[i]], depth+1)
	})
}

func (s *jsonStyle) quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c < 0x20 || s.ascii && c >= 0x7f && c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		case s.ascii && c >= 0x10000:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
