package jinja

import (
	"math"
	"strconv"
	"strings"
)

// numberFilters calculate and convert numbers.
var numberFilters = map[string]filterSpec{
	"abs": {apply: func(_ *runtime, v Value, _ []Value) Value {
		if f, ok := v.(float64); ok {
			return math.Abs(f)
		}
		n := wantInt("abs", v)
		if n < 0 {
			return intOp("-", 0, n)
		}
		return n
	}},
	"int":   {params: []string{"default?", "base?"}, apply: intFilter},
	"float": {params: []string{"default?"}, apply: floatFilter},
	"round": {params: []string{"precision?", "method?"}, apply: roundFilter},
	"sum":   {params: []string{"attribute?", "start?"}, apply: sumFilter},
	"min": {params: []string{"case_sensitive?", "attribute?"}, apply: extreme(func(r *runtime, a, b Value) bool {
		return r.lessThan(a, b, 0)
	})},
	"max": {params: []string{"case_sensitive?", "attribute?"}, apply: extreme(func(r *runtime, a, b Value) bool {
		return r.lessThan(b, a, 0)
	})},
}

// parseFloat reads text as Python's float() does.
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	lowered := strings.ToLower(strings.TrimLeft(s, "+-"))
	switch lowered {
	case "inf", "infinity", "nan":
	default:
		if strings.ContainsAny(lowered, "xpin") || !digitsAroundUnderscores(s) {
			return 0, false
		}
		s = strings.ReplaceAll(s, "_", "")
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func digitsAroundUnderscores(s string) bool {
	digit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	for i := range len(s) {
		if s[i] == '_' && !(digit(i-1) && digit(i+1)) {
			return false
		}
	}
	return true
}

// parseInt reads text as Python's int(text, base) does; fits is false for an integer beyond 64
// bits.
func parseInt(s string, base int64) (n int64, ok, fits bool) {
	s = strings.TrimFunc(s, isSpace)
	body, sign := s, ""
	if body != "" && (body[0] == '-' || body[0] == '+') {
		sign, body = body[:1], body[1:]
	}
	prefixes := map[int64]string{2: "0b", 8: "0o", 16: "0x"}
	for b, prefix := range prefixes {
		if (base == b || base == 0) && len(body) > 2 && strings.EqualFold(body[:2], prefix) {
			base, body = b, strings.TrimPrefix(body[2:], "_")
			break
		}
	}
	if base == 0 {
		base = 10
		if len(body) > 1 && body[0] == '0' && strings.Trim(body, "0_") != "" {
			return 0, false, true
		}
	}
	if body == "" || body[0] == '_' || strings.HasSuffix(body, "_") || strings.Contains(body, "__") || base < 2 || base > 36 {
		return 0, false, true
	}
	body = strings.ReplaceAll(body, "_", "")
	if body[0] == '-' || body[0] == '+' {
		return 0, false, true
	}
	n, err := strconv.ParseInt(sign+body, int(base), 64)
	if err != nil {
		return 0, false, !strings.Contains(err.Error(), "out of range")
	}
	return n, true, true
}

func intFilter(_ *runtime, v Value, a []Value) Value {
	fallback := orDefault(a[0], int64(0))
	var f float64
	switch x := v.(type) {
	case *undefined:
		panic(x.fail())
	case string:
		base := wantInt("int", orDefault(a[1], int64(10)))
		n, ok, fits := parseInt(x, base)
		if !fits {
			panic(overflow())
		}
		if ok {
			return n
		}
		if f, ok = parseFloat(x); !ok {
			return fallback
		}
	case markup:
		panic(failf(Unsupported, "int of text marked safe"))
	case float64:
		f = x
		if math.IsInf(f, 0) {
			panic(typeErrorf("cannot convert float infinity to integer"))
		}
	default:
		if n, ok := integer(v); ok {
			return n
		}
		if isInteger(v) {
			return v
		}
		return fallback
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fallback
	}
	if math.Abs(f) >= 1<<63 {
		panic(overflow())
	}
	return int64(f)
}

func floatFilter(_ *runtime, v Value, a []Value) Value {
	if u, ok := v.(*undefined); ok {
		panic(u.fail())
	}
	if f, ok := float(v); ok {
		return f
	}
	if isInteger(v) {
		panic(overflow())
	}
	if s, ok := textOf(v); ok {
		if f, ok := parseFloat(s); ok {
			return f
		}
	}
	return orDefault(a[0], 0.0)
}

func roundFilter(r *runtime, v Value, a []Value) Value {
	precision := wantInt("round", orDefault(a[0], int64(0)))
	if precision < 0 || precision > 300 {
		panic(failf(Unsupported, "round to a precision of %d", precision))
	}
	r.spell(int(max(precision, 0)))
	method := orDefault(a[1], "common")
	if u, ok := v.(*undefined); ok {
		panic(u.fail())
	}
	f, ok := float(v)
	if !ok {
		panic(typeErrorf("round wants a number, not %s", typeName(v)))
	}
	scale := math.Pow(10, float64(precision))
	switch method {
	case "common":
		if n, whole := integer(v); whole {
			return n
		}
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
		return rounded
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	}
	panic(typeErrorf("the method of round must be common, ceil or floor"))
}

func sumFilter(r *runtime, v Value, a []Value) Value {
	total := orDefault(a[1], int64(0))
	if _, isText := textOf(total); isText {
		panic(typeErrorf("sum() can't sum strings"))
	}
	get := attributeGetter(r, orDefault(a[0], nil), nil)
	it := r.iterate(v)
	for {
		item, ok := it.next()
		if !ok {
			return total
		}
		item = get(item)
		total = r.binary("+", total, item)
	}
}

// extreme returns the filter min or max. Of equal items the filter returns the first.
func extreme(better func(r *runtime, a, b Value) bool) func(r *runtime, v Value, a []Value) Value {
	return func(r *runtime, v Value, a []Value) Value {
		items := r.collect(v)
		if len(items) == 0 {
			return undefinedf("No aggregated item, sequence was empty.")
		}
		post := r.foldCase
		if truth(orDefault(a[0], false)) {
			post = nil
		}
		key := attributeGetter(r, orDefault(a[1], nil), post)
		best := items[0]
		bestKey := key(best)
		for _, item := range items[1:] {
			k := key(item)
			if better(r, k, bestKey) {
				best, bestKey = item, k
			}
		}
		return best
	}
}
