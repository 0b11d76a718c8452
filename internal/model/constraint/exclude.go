package constraint

import "slices"

// excludeEachOther refuses a oneOf of which two alternatives may take the same value, unless it sees that
// none do: they have different types, lists of values, or values of one required member.
func (b *builder) excludeEachOther(at string, each [][][]part) error {
	for i := range each {
		for j := range i {
			for _, x := range each[i] {
				for _, y := range each[j] {
					apart, err := b.apart(x, y)
					if err != nil {
						return err
					}
					if !apart {
						return refuse(below(at, "oneOf"), "the alternatives %d and %d may take the same value: write anyOf, or give them a "+
							"required member with a const of its own", j, i)
					}
				}
			}
		}
	}
	return nil
}

// apart reports whether no value satisfies both, as far as that is easy to see.
func (b *builder) apart(x, y []part) (bool, error) {
	ofX, _ := typesOf(x, false)
	ofY, _ := typesOf(y, false)
	if !slices.ContainsFunc(ofX, func(t string) bool { return slices.Contains(ofY, t) }) {
		return true, nil
	}
	for _, pair := range [][2][]part{{x, y}, {y, x}} {
		if values, ok := valuesOf(pair[0]); ok {
			return b.noneFits(values, pair[1])
		}
	}
	if len(ofX) != 1 || len(ofY) != 1 || ofX[0] != "object" || ofY[0] != "object" {
		return false, nil
	}
	for _, name := range required(x) {
		if !slices.Contains(required(y), name) {
			continue
		}
		mine, ok := b.memberValues(x, name)
		theirs, also := b.memberValues(y, name)
		if ok && also && !slices.ContainsFunc(mine, func(v any) bool {
			return slices.ContainsFunc(theirs, func(w any) bool { return b.write(v) == b.write(w) })
		}) {
			return true, nil
		}
	}
	return false, nil
}

// valuesOf returns the values that a const or an enum lists.
func valuesOf(parts []part) ([]any, bool) {
	for _, p := range parts {
		if one, has := p.of["const"]; has {
			return []any{one}, true
		}
		if list := listOf(&p.object, "enum"); list != nil {
			return list, true
		}
	}
	return nil, false
}

func (b *builder) noneFits(values []any, parts []part) (bool, error) {
	for _, v := range values {
		if fits, err := b.satisfies(v, parts); fits || err != nil {
			return false, err
		}
	}
	return true, nil
}

func required(parts []part) (names []string) {
	for _, p := range parts {
		for _, name := range listOf(&p.object, "required") {
			names = append(names, name.(string))
		}
	}
	return names
}

// memberValues returns the values that the schema of a member lists itself. Numbers are left out: 1 and
// 1.0 are one value.
func (b *builder) memberValues(parts []part, name string) ([]any, bool) {
	for _, p := range parts {
		of, _ := p.of["properties"].(*object)
		if of == nil {
			continue
		}
		schema, _ := of.of[name].(*object)
		if schema == nil {
			continue
		}
		values, ok := valuesOf([]part{{"", *schema}})
		if ok && !slices.ContainsFunc(values, func(v any) bool { _, isText := v.(string); return !isText }) {
			return values, true
		}
	}
	return nil, false
}
