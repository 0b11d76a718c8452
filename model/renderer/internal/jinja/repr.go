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
func (r *runtime) str(v Value) string {
	switch x := v.(type) {
	case string:
		return x
	case markup:
		return string(x)
	case *undefined:
		return ""
	}
	return r.repr(v)
}

// repr is Python's repr().
func (r *runtime) repr(v Value) string {
	w := r.textWriter()
	writeRepr(w, v, 0)
	r.spell(2 * w.Len())
	return w.String()
}

// limitedText is text under construction that may not exceed limit bytes.
type limitedText struct {
	strings.Builder
	limit int
}

func (w *limitedText) add(s string) {
	if w.Len()+len(s) > w.limit {
		panic(tooLarge(w.limit))
	}
	w.WriteString(s)
}

func writeRepr(w *limitedText, v Value, depth int) {
	if depth > maxValueDepth {
		panic(tooDeep())
	}
	switch x := v.(type) {
	case nil:
		w.add("None")
	case bool:
		if x {
			w.add("True")
		} else {
			w.add("False")
		}
	case int64:
		w.add(strconv.FormatInt(x, 10))
	case *big.Int:
		w.add(x.String())
	case float64:
		w.add(formatFloat(x))
	case string:
		w.add(quote(x))
	case markup:
		w.add("Markup(" + quote(string(x)) + ")")
	case *undefined:
		w.add("Undefined")
	case *List:
		writeItems(w, "[", x.Items, "]", depth)
	case *Tuple:
		if len(x.Items) == 1 {
			writeItems(w, "(", x.Items, ",)", depth)
		} else {
			writeItems(w, "(", x.Items, ")", depth)
		}
	case *Map:
		writeMap(w, x, depth)
	case *view:
		writeItems(w, "dict_"+x.kind+"([", x.items(), "])", depth)
	case *interval:
		step := ""
		if x.step != 1 {
			step = fmt.Sprintf(", %d", x.step)
		}
		w.add(fmt.Sprintf("range(%d, %d%s)", x.start, x.stop, step))
	case *namespace:
		w.add("<Namespace ")
		writeMap(w, x.attrs, depth)
		w.add(">")
	case *macro:
		w.add("<Macro " + quote(x.name) + ">")
	case *loop:
		n := x.length()
		w.add(fmt.Sprintf("<LoopContext %d/%d>", x.index0+1, n))
	default:
		panic(failf(Unsupported, "the text of a %s, which names a memory address in Python", typeName(v)))
	}
}

func writeItems(w *limitedText, open string, items []Value, end string, depth int) {
	for i, v := range items {
		if i == 0 {
			w.add(open)
		} else {
			w.add(", ")
		}
		writeRepr(w, v, depth+1)
	}
	if len(items) == 0 {
		w.add(open + end)
		return
	}
	w.add(end)
}

func writeMap(w *limitedText, m *Map, depth int) {
	w.add("{")
	for i, k := range m.keys {
		if i > 0 {
			w.add(", ")
		}
		writeRepr(w, k, depth+1)
		w.add(": ")
		writeRepr(w, m.vals[i], depth+1)
	}
	w.add("}")
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
	q := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	return quoted(s, q, func(c rune) string {
		switch {
		case unicode.IsPrint(c):
			return ""
		case c < 0x100:
			return fmt.Sprintf(`\x%02x`, c)
		case c < 0x10000:
			return fmt.Sprintf(`\u%04x`, c)
		}
		return fmt.Sprintf(`\U%08x`, c)
	})
}

// quoted returns a text between quotes q. escape returns how to write a character other than quotes,
// backslashes, \n, \r and \t; "" for as it is.
func quoted(s string, q rune, escape func(c rune) string) string {
	var b strings.Builder
	b.WriteRune(q)
	for _, c := range s {
		switch {
		case c == q || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		default:
			if written := escape(c); written != "" {
				b.WriteString(written)
			} else {
				b.WriteRune(c)
			}
		}
	}
	b.WriteRune(q)
	return b.String()
}
