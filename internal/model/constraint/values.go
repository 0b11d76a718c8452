package constraint

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// types are the types of JSON, without integer, which is a number.
var types = []string{"object", "array", "string", "number", "boolean", "null"}

// alternative matches the values that satisfy all parts.
func (b *builder) alternative(parts []part) (int32, error) {
	if !slices.ContainsFunc(parts, part.limits) {
		return b.anything(), nil
	}
	for _, p := range parts {
		if _, has := p.of["const"]; has || p.of["enum"] != nil {
			return b.listed(parts, p)
		}
	}
	allowed, whole := typesOf(parts, true)
	return b.typed(parts, allowed, whole)
}

// typed matches the values of some types that satisfy all parts.
func (b *builder) typed(parts []part, types []string, whole bool) (int32, error) {
	var list []int32
	for _, name := range types {
		var x int32
		var err error
		switch name {
		case "null":
			x = b.mark(b.words[2])
		case "boolean":
			x = b.alt(b.mark(b.words[0]), b.mark(b.words[1]))
		case "string":
			var content int32
			if content, err = b.content(parts); err == nil {
				x = b.quoted(content)
			}
		case "number":
			x, err = b.numbers(parts, whole)
		case "array":
			x, err = b.array(parts)
		case "object":
			x, err = b.object(parts)
		}
		if err != nil {
			return none, err
		}
		list = append(list, x)
	}
	return b.alt(list...), nil
}

// limits reports whether a part says anything of values.
func (p part) limits() bool {
	return slices.ContainsFunc(p.keys, func(key string) bool {
		_, known := honoured[key]
		return known && key != "$ref" && key != "allOf" && key != "anyOf" && key != "oneOf"
	})
}

// typesOf returns the types that all parts allow, and whether numbers are integers. If infer is set and
// no part names a type, the other keywords do: a schema with properties is one of objects.
func typesOf(parts []part, infer bool) (allowed []string, whole bool) {
	allowed = types
	named := false
	for _, p := range parts {
		names := listOf(&p.object, "type")
		if one, ok := p.of["type"].(string); ok {
			names = []any{one}
		}
		if names == nil {
			continue
		}
		named = true
		isInteger := slices.Contains(names, any("integer"))
		whole = whole || isInteger && !slices.Contains(names, any("number"))
		allowed = slices.DeleteFunc(slices.Clone(allowed), func(t string) bool {
			return !slices.Contains(names, any(t)) && !(t == "number" && isInteger)
		})
	}
	if named || !infer {
		return allowed, whole
	}
	var implied []string
	for _, p := range parts {
		for _, key := range p.keys {
			if t := honoured[key]; t != "" {
				implied = append(implied, t)
			}
		}
	}
	if implied != nil {
		allowed = slices.Compact(slices.Sorted(slices.Values(implied)))
	}
	return allowed, whole
}

// listed matches those values of a part's enum or const that satisfy all parts.
func (b *builder) listed(parts []part, p part) (int32, error) {
	values := listOf(&p.object, "enum")
	if one, has := p.of["const"]; has {
		values = []any{one}
	}
	if len(values) > maxListed {
		return none, refuse(below(p.at, "enum"), "it has %d values; want at most %d", len(values), maxListed)
	}
	var texts []string
	for _, v := range values {
		fits, err := b.satisfies(v, parts)
		if err != nil {
			return none, err
		}
		text := b.write(v)
		if err := b.checkMarks(p.at, text); err != nil {
			return none, err
		}
		if fits {
			texts = append(texts, text)
		}
	}
	return b.marks(texts), nil
}

// satisfies reports whether a value satisfies all parts.
func (b *builder) satisfies(v any, parts []part) (bool, error) {
	plain := plainOf(v)
	for _, p := range parts {
		checker, err := b.checker.Compile(schemaName + "#" + escaped.Replace(p.at))
		if err != nil {
			return false, invalid(b.root, err)
		}
		if checker.Validate(plain) != nil {
			return false, nil
		}
	}
	return true, nil
}

// escaped writes a JSON pointer into the fragment of a URL.
var escaped = strings.NewReplacer("%", "%25", " ", "%20", `"`, "%22", "<", "%3C", ">", "%3E", "^", "%5E", "`", "%60", "#", "%23",
	"\\", "%5C")

// write returns a value as it stands in a reply.
func (b *builder) write(v any) string {
	switch v := v.(type) {
	case nil:
		return b.words[2]
	case bool:
		if v {
			return b.words[0]
		}
		return b.words[1]
	case json.Number:
		return string(v)
	case string:
		return `"` + spelled(v) + `"`
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, b.write(x))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case *object:
		var all []string
		for _, key := range v.keys {
			all = append(all, `"`+spelled(key)+`": `+b.write(v.of[key]))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// integer returns the value of a keyword that is a number of things, as the checker has found.
func integer(o *object, key string, otherwise int32) int32 {
	n, ok := o.of[key].(json.Number)
	if !ok {
		return otherwise
	}
	x, ok := new(big.Float).SetString(string(n))
	if !ok {
		return otherwise
	}
	v, _ := x.Int64()
	return int32(min(v, 1<<30))
}

// between returns the range of a count that all parts allow; most may be unlimited.
func between(parts []part, minKey, maxKey string) (least, most int32) {
	most = unlimited
	for _, p := range parts {
		least = max(least, integer(&p.object, minKey, 0))
		if n := integer(&p.object, maxKey, unlimited); n != unlimited && (most == unlimited || n < most) {
			most = n
		}
	}
	return least, most
}

// content matches the contents of strings.
func (b *builder) content(parts []part) (int32, error) {
	least, most := between(parts, "minLength", "maxLength")
	var all []int32
	char := b.char
	for _, p := range parts {
		branches, err := b.patternsOf(p)
		if err != nil {
			return none, err
		}
		for _, one := range branches {
			if len(one) == 1 && one[0].series() && char == b.char {
				n := b.nodes[one[0].node] // so many of one character: no need to count it twice
				char, least = n.a, max(least, n.min)
				if n.max != unlimited && (most == unlimited || n.max < most) {
					most = n.max
				}
				continue
			}
			all = append(all, b.found(one, narrow))
		}
	}
	switch {
	case all == nil || char != b.char:
		all = append(all, b.rep(char, least, most))
	case least > 0 || most != unlimited:
		all = append(all, b.rep(b.exact, least, most))
	}
	if b.unmarked != none {
		all = append(all, b.unmarked)
	}
	return b.alive(b.and(all...)), nil
}

// patternsOf returns the branches of the pattern of a part, and of its format.
func (b *builder) patternsOf(p part) (all [][]branch, err error) {
	if pattern, ok := p.of["pattern"].(string); ok {
		x, err := b.patternOf(pattern, narrow)
		if err != nil {
			return nil, refuse(below(p.at, "pattern"), "%v", err)
		}
		all = append(all, x)
	}
	if name, ok := p.of["format"].(string); ok {
		pattern, known := formats[name]
		if !known {
			return nil, refuse(below(p.at, "format"), "the format %q is not supported: want %s; or use pattern", name, formatNames())
		}
		x, err := b.patternOf(pattern, narrow)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// widths are the formats of OpenAPI for numbers: the bits of an integer, with its sign; 0 for no limit.
var widths = map[string]int{"int8": -8, "int16": -16, "int32": -32, "int64": -64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
	"float": 0, "double": 0}

// width narrows numbers to a format of OpenAPI. Formats of strings say nothing of numbers.
func (l *limits) width(p part) error {
	name, ok := p.of["format"].(string)
	if _, ofStrings := formats[name]; !ok || ofStrings {
		return nil
	}
	bits, known := widths[name]
	switch one := big.NewInt(1); {
	case !known:
		return refuse(below(p.at, "format"), "the format %q is not supported for numbers: write minimum and maximum", name)
	case bits < 0:
		end := new(big.Int).Lsh(one, uint(-bits-1))
		l.atLeast(new(big.Rat).SetInt(new(big.Int).Neg(end)), false)
		l.atMost(new(big.Rat).SetInt(end.Sub(end, one)), false)
	case bits > 0:
		end := new(big.Int).Lsh(one, uint(bits))
		l.atLeast(new(big.Rat), false)
		l.atMost(new(big.Rat).SetInt(end.Sub(end, one)), false)
	}
	return nil
}

// numbers matches numbers.
func (b *builder) numbers(parts []part, whole bool) (int32, error) {
	l := limits{whole: whole, places: -1}
	for _, p := range parts {
		if err := l.width(p); err != nil {
			return none, err
		}
		for _, key := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"} {
			v, has := p.of[key]
			n, ok := v.(json.Number)
			switch {
			case !has:
				continue
			case !ok:
				return none, refuse(below(p.at, key), "want a number: an older draft of JSON schemas had true here")
			}
			x, err := decimal(n)
			if err != nil {
				return none, refuse(below(p.at, key), "%v", err)
			}
			switch key {
			case "minimum", "exclusiveMinimum":
				l.atLeast(x, key == "exclusiveMinimum")
			case "maximum", "exclusiveMaximum":
				l.atMost(x, key == "exclusiveMaximum")
			default:
				if !l.multipleOf(x) {
					return none, refuse(below(p.at, key), "%s is not supported: want a whole number up to %d, 0.1, 0.01 and so on", n, maxStep)
				}
			}
		}
	}
	return b.bounded(l), nil
}

// multipleOf narrows numbers to multiples of x. It returns false if it cannot.
func (l *limits) multipleOf(x *big.Rat) bool {
	if x.IsInt() && x.Num().IsInt64() && x.Num().Int64() <= maxStep {
		both := x.Num().Int64()
		if l.step > 0 {
			both = l.step / new(big.Int).GCD(nil, nil, big.NewInt(l.step), x.Num()).Int64() * both
		}
		l.whole, l.step = true, both
		return both <= maxStep
	}
	_, behind := split(x)
	if strings.Trim(behind, "0") != "1" || !x.IsInt() && x.Num().Int64() != 1 {
		return false
	}
	if l.places < 0 || len(behind) < l.places {
		l.places = len(behind)
	}
	return true
}
