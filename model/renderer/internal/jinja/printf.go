package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printfSpec is one %-directive.
type printfSpec struct {
	key                            string
	hasKey                         bool
	left, plus, space, zero, sharp bool
	width, precision               int // precision -1 where absent
	verb                           byte
}

// printf returns Python's format % args. A tuple holds the arguments in order, a mapping holds them
// by name, and any other value is the only argument.
func printf(r *runtime, format string, args Value) Value {
	w := r.textWriter()
	list, single := []Value{args}, true
	if t, ok := args.(*Tuple); ok {
		list, single = t.Items, false
	}
	m, _ := args.(*Map)
	next, byName := 0, false
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			i = len(format)
		}
		w.add(format[:i])
		if i == len(format) {
			break
		}
		r.spend(1)
		spec, rest := parsePrintf(format[i+1:])
		format = rest
		if spec.verb == '%' {
			w.add("%")
			continue
		}
		var v Value
		switch {
		case spec.hasKey && m == nil:
			panic(typeErrorf("format requires a mapping"))
		case spec.hasKey:
			byName = true
			var ok bool
			if v, ok = m.Get(spec.key); !ok {
				panic(typeErrorf("format has no value for '%s'", spec.key))
			}
		case next >= len(list):
			panic(typeErrorf("not enough arguments for format string"))
		default:
			v = list[next]
			next++
		}
		w.add(directive(r, spec, v))
	}
	if next < len(list) && !byName && !(single && subscriptable(args)) {
		panic(typeErrorf("not all arguments converted during string formatting"))
	}
	r.spend(w.Len() / 64)
	return w.String()
}

// subscriptable reports whether Python lets v stay unused as the only argument of a format, because
// v could be a mapping.
func subscriptable(v Value) bool {
	switch v.(type) {
	case *Map, *List, *interval, *undefined:
		return true
	}
	return false
}

func parsePrintf(s string) (spec printfSpec, rest string) {
	spec.precision = -1
	if strings.HasPrefix(s, "(") {
		end := strings.IndexByte(s, ')')
		if end < 0 || strings.Contains(s[1:end], "(") {
			panic(typeErrorf("incomplete format key"))
		}
		spec.key, spec.hasKey, s = s[1:end], true, s[end+1:]
	}
	for s != "" && strings.IndexByte("-+ 0#", s[0]) >= 0 {
		switch s[0] {
		case '-':
			spec.left = true
		case '+':
			spec.plus = true
		case ' ':
			spec.space = true
		case '0':
			spec.zero = true
		case '#':
			spec.sharp = true
		}
		s = s[1:]
	}
	spec.width, s = leadingInt(s)
	if strings.HasPrefix(s, ".") {
		spec.precision, s = leadingInt(s[1:])
	}
	if s == "" {
		panic(typeErrorf("incomplete format"))
	}
	spec.verb = s[0]
	return spec, s[1:]
}

func leadingInt(s string) (int, string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if strings.HasPrefix(s, "*") {
		panic(failf(Unsupported, "'*' in a format"))
	}
	if i == 0 {
		return 0, s
	}
	n, err := strconv.Atoi(s[:i])
	if err != nil || n > 1<<20 {
		panic(failf(Limit, "a format width beyond %d", 1<<20))
	}
	return n, s[i:]
}

func directive(r *runtime, spec printfSpec, v Value) string {
	switch spec.verb {
	case 's', 'r':
		text := r.str(v)
		if spec.verb == 'r' {
			text = r.repr(v)
		}
		r.read(text)
		if _, marked := v.(markup); marked {
			panic(failf(Unsupported, "formatting text marked safe"))
		}
		if spec.precision >= 0 {
			if runes := []rune(text); len(runes) > spec.precision {
				text = string(runes[:spec.precision])
			}
		}
		spec.zero = false
		return spec.fill("", text)
	case 'd', 'i', 'u':
		if f, ok := v.(float64); ok && math.Abs(f) < 1<<62 {
			v = int64(f)
		}
		n := wantInt("%d", v)
		digits := strconv.FormatUint(abs(n), 10)
		return spec.fill(spec.sign(n < 0), zeros(digits, spec.precision))
	case 'x', 'X', 'o':
		n := wantInt("%x", v)
		base, prefix := 16, "0x"
		if spec.verb == 'o' {
			base, prefix = 8, "0o"
		}
		digits := zeros(strconv.FormatUint(abs(n), base), spec.precision)
		if spec.verb == 'X' {
			digits, prefix = strings.ToUpper(digits), "0X"
		}
		if !spec.sharp {
			prefix = ""
		}
		return spec.fill(spec.sign(n < 0)+prefix, digits)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		f, ok := float(v)
		if !ok {
			panic(typeErrorf("must be real number, not %s", typeName(v)))
		}
		if spec.sharp {
			panic(failf(Unsupported, "'#' in a float format"))
		}
		r.spell(max(spec.precision, 0))
		return spec.fill(spec.sign(math.Signbit(f)), formatReal(math.Abs(f), spec.verb, spec.precision))
	case 'c':
		if s, ok := v.(string); ok && utf8.RuneCountInString(s) == 1 {
			spec.zero = false
			return spec.fill("", s)
		}
		panic(failf(Unsupported, "%%c of a %s", typeName(v)))
	}
	panic(typeErrorf("unsupported format character '%c'", spec.verb))
}

func (p *printfSpec) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case p.plus:
		return "+"
	case p.space:
		return " "
	}
	return ""
}

func (p *printfSpec) fill(sign, body string) string {
	n := max(0, p.width-utf8.RuneCountInString(sign)-utf8.RuneCountInString(body))
	switch {
	case p.left:
		return sign + body + strings.Repeat(" ", n)
	case p.zero:
		return sign + strings.Repeat("0", n) + body
	}
	return strings.Repeat(" ", n) + sign + body
}

func zeros(digits string, precision int) string {
	return strings.Repeat("0", max(0, precision-len(digits))) + digits
}

// formatReal formats a number that is not negative with one of Python's float types.
func formatReal(f float64, verb byte, precision int) string {
	if precision < 0 {
		precision = 6
	}
	var s string
	switch lower := verb | 0x20; {
	case math.IsInf(f, 0):
		s = "inf"
	case math.IsNaN(f):
		s = "nan"
	case lower == 'g':
		s = formatGeneral(f, max(precision, 1))
	default:
		s = strconv.FormatFloat(f, lower, precision, 64)
	}
	if verb < 'a' {
		s = strings.ToUpper(s)
	}
	return s
}

func formatGeneral(f float64, precision int) string {
	if f == 0 {
		return "0"
	}
	scientific := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponent, _ := strings.Cut(scientific, "e")
	exp, _ := strconv.Atoi(exponent)
	trim := func(s string) string {
		if strings.Contains(s, ".") {
			return strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	if exp < -4 || exp >= precision {
		return trim(mantissa) + "e" + exponent
	}
	return trim(strconv.FormatFloat(f, 'f', precision-1-exp, 64))
}
