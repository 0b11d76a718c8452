package constraint

import "fmt"

// maxPrefix bounds prefixItems.
const maxPrefix = 1000

// array matches the arrays that satisfy all parts.
func (b *builder) array(parts []part) (int32, error) {
	least, most := between(parts, "minItems", "maxItems")
	longest, rest, closed := 0, []string(nil), false
	for _, p := range parts {
		longest = max(longest, len(listOf(&p.object, "prefixItems")))
	}
	for _, p := range parts {
		if _, has := p.of["items"]; has {
			rest = append(rest, below(p.at, "items"))
		}
	}
	closed = rest == nil && longest > 0 // as for objects: what nobody describes is left out
	if longest > maxPrefix {
		return none, refuse(parts[0].at, "prefixItems has %d schemas; want at most %d", longest, maxPrefix)
	}
	element := none
	if !closed {
		var err error
		if element, err = b.ruleOr(rest); err != nil {
			return none, err
		}
	}
	out, err := b.elements(parts, element, longest, least, most)
	return b.cat(b.cat(b.mark("["), b.space), out), err
}

// elements matches the elements of an array and its end. The first ones have schemas of their own.
func (b *builder) elements(parts []part, element int32, first int, least, most int32) (int32, error) {
	end := func(n int) int32 {
		if n == 0 {
			return b.mark("]")
		}
		return b.cat(b.space, b.mark("]"))
	}
	more := int32(unlimited)
	if most != unlimited {
		more = max(0, most-int32(first))
	}
	var out int32
	switch least := max(0, least-int32(first)); {
	case most != unlimited && most < int32(first):
		out = none
	case first > 0:
		out = b.cat(b.rep(b.cat(b.comma(), element), least, more), end(first))
	default:
		out = b.cat(b.series(element, least, more), b.mark("]"))
	}
	for i := first - 1; i >= 0; i-- {
		var places []string
		for _, p := range parts {
			if i < len(listOf(&p.object, "prefixItems")) {
				places = append(places, fmt.Sprintf("%s/prefixItems/%d", p.at, i))
			} else if _, has := p.of["items"]; has {
				places = append(places, below(p.at, "items"))
			}
		}
		value, err := b.ruleOr(places)
		if err != nil {
			return none, err
		}
		if i > 0 {
			value = b.cat(b.comma(), value)
		}
		if out = b.cat(value, out); most != unlimited && most <= int32(i) {
			out = none
		}
		if int32(i) >= least && (most == unlimited || int32(i) <= most) {
			out = b.alt(out, end(i))
		}
	}
	return out, nil
}
