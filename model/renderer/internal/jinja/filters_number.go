package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// numberFilters calculate and convert numbers.
var numberFilters = map[string]builtin{
	"abs": {"", func(c *input) Value {
		if f, ok := c.self.(float64); ok {
			return math.Abs(f)
		}
		n := wantInt("abs", c.self)
		if n < 0 {
			return intOp("-", 0, n)
		}
		return n
	}},
	"int":   {"default? base?", intFilter},
	"float": {"default?", floatFilter},
	"round": {"precision? method?", roundFilter},
	"sum": {"attribute? start?", func(c *input) Value {
		total := c.or(1, int64(0))
		if _, isText := textOf(total); isText {
			panic(typeErrorf("sum() can't sum strings"))
		}
		get := getter(c.r, c.or(0, nil), nil)
		for item := range c.r.iterate(c.self).all {
			total = c.r.binary("+", total, get(item))
		}
		return total
	}},
	"min": extreme(func(r *runtime, a, b Value) bool { return r.lessThan(a, b, 0) }),
	"max": extreme(func(r *runtime, a, b Value) bool { return r.lessThan(b, a, 0) }),
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

func intFilter(c *input) Value {
	fallback := c.or(0, int64(0))
	var f float64
	switch x := c.self.(type) {
	case *undefined:
		panic(x.fail())
	case string:
		n, ok, fits := parseInt(x, c.int(1, 10))
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
		if n, ok := integer(x); ok {
			return n
		}
		if isInteger(x) {
			return x
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

func floatFilter(c *input) Value {
	if f, ok := float(c.self); ok {
		return f
	}
	switch x := c.self.(type) {
	case *undefined:
		panic(x.fail())
	case *big.Int:
		panic(overflow())
	}
	if s, ok := textOf(c.self); ok {
		if f, ok := parseFloat(s); ok {
			return f
		}
	}
	return c.or(0, 0.0)
}

func roundFilter(c *input) Value {
	precision := c.int(0, 0)
	if precision < 0 || precision > 300 {
		panic(failf(Unsupported, "round to a precision of %d", precision))
	}
	c.r.spell(int(precision))
	if u, ok := c.self.(*undefined); ok {
		panic(u.fail())
	}
	f, ok := float(c.self)
	if !ok {
		panic(typeErrorf("round wants a number, not %s", typeName(c.self)))
	}
	scale := math.Pow(10, float64(precision))
	switch c.or(1, "common") {
	case "common":
		if n, whole := integer(c.self); whole {
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

// extreme returns the filter min or max. Of equal items the filter returns the first.
func extreme(better func(r *runtime, a, b Value) bool) builtin {
	return builtin{"case_sensitive? attribute?", func(c *input) Value {
		items := c.r.collect(c.self)
		if len(items) == 0 {
			return undefinedf("No aggregated item, sequence was empty.")
		}
		key := c.folded(0, getter(c.r, c.or(1, nil), nil))
		best, bestKey := items[0], key(items[0])
		for _, item := range items[1:] {
			if k := key(item); better(c.r, k, bestKey) {
				best, bestKey = item, k
			}
		}
		return best
	}}
}
