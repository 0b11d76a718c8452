package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str().
func (r *runtime) str(v Value) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case markup:
		return string(x), nil
	case *undefined:
		return "", nil
	}
	return r.repr(v)
}

// repr is Python's repr().
func (r *runtime) repr(v Value) (string, error) {
	w := &limitedText{limit: r.limits.Size}
	if err := writeRepr(w, v, 0); err != nil {
		return "", err
	}
	return w.String(), r.spend(w.Len() / 16)
}

// limitedText is text under construction that may not exceed limit bytes.
type limitedText struct {
	strings.Builder
	limit int
}

func (w *limitedText) add(s string) error {
	if w.Len()+len(s) > w.limit {
		return tooLarge(w.limit)
	}
	w.WriteString(s)
	return nil
}

func writeRepr(w *limitedText, v Value, depth int) error {
	if depth > maxValueDepth {
		return tooDeep()
	}
	switch x := v.(type) {
	case nil:
		return w.add("None")
	case bool:
		if x {
			return w.add("True")
		}
		return w.add("False")
	case int64:
		return w.add(strconv.FormatInt(x, 10))
	case *big.Int:
		return w.add(x.String())
	case float64:
		return w.add(formatFloat(x))
	case string:
		return w.add(quote(x))
	case markup:
		return w.add("Markup(" + quote(string(x)) + ")")
	case *undefined:
		return w.add("Undefined")
	case *List:
		return writeItems(w, "[", x.Items, "]", depth)
	case *Tuple:
		if len(x.Items) == 1 {
			return writeItems(w, "(", x.Items, ",)", depth)
		}
		return writeItems(w, "(", x.Items, ")", depth)
	case *Map:
		return writeMap(w, x, depth)
	case *view:
		return writeItems(w, "dict_"+x.kind+"([", x.items(), "])", depth)
	case *interval:
		if x.step == 1 {
			return w.add(fmt.Sprintf("range(%d, %d)", x.start, x.stop))
		}
		return w.add(fmt.Sprintf("range(%d, %d, %d)", x.start, x.stop, x.step))
	case *namespace:
		if err := w.add("<Namespace "); err != nil {
			return err
		}
		if err := writeMap(w, x.attrs, depth); err != nil {
			return err
		}
		return w.add(">")
	case *macro:
		return w.add("<Macro " + quote(x.name) + ">")
	case *loop:
		n, err := x.length()
		if err != nil {
			return err
		}
		return w.add(fmt.Sprintf("<LoopContext %d/%d>", x.index0+1, n))
	}
	return failf(Unsupported, "the text of a %s, which names a memory address in Python", typeName(v))
}

func writeItems(w *limitedText, open string, items []Value, end string, depth int) error {
	for i, v := range items {
		if i == 0 {
			if err := w.add(open); err != nil {
				return err
			}
		} else if err := w.add(", "); err != nil {
			return err
		}
		if err := writeRepr(w, v, depth+1); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		return w.add(open + end)
	}
	return w.add(end)
}

func writeMap(w *limitedText, m *Map, depth int) error {
	if err := w.add("{"); err != nil {
		return err
	}
	for i, k := range m.keys {
		if i > 0 {
			if err := w.add(", "); err != nil {
				return err
			}
		}
		if err := writeRepr(w, k, depth+1); err != nil {
			return err
		}
		if err := w.add(": "); err != nil {
			return err
		}
		if err := writeRepr(w, m.vals[i], depth+1); err != nil {
			return err
		}
	}
	return w.add("}")
}

// formatFloat is Python's repr of a float: the shortest digits that read back, with an exponent
// below 1e-4 and from 1e16.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote is Python's repr of a string.
func quote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteByte(q)
	for _, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte(q)
	return b.String()
}
