package constraint

import (
	"math/bits"
	"regexp"
	"slices"
)

// maxPatterns bounds the patterns of names in one object: a name may match each subset of them.
const maxPatterns = 4

// maxMembers bounds the named members of one object.
const maxMembers = 5000

// member is a named member of objects.
type member struct {
	name     string
	required bool
	places   []string // of its schemas
	value    int32
	node     int32 // its name and its value
}

// object matches the objects that satisfy all parts. Members stand in the order of the schema, those
// without a name in it at the end.
func (b *builder) object(parts []part) (int32, error) {
	least, most := between(parts, "minProperties", "maxProperties")
	members, err := b.members(parts)
	if err != nil {
		return none, err
	}
	further, err := b.further(parts, members)
	if err != nil {
		return none, err
	}
	// A counted member is another one than those before it, which only named ones are sure to be.
	if further != none && least > 1 {
		return none, refuse(parts[0].at, "minProperties %d is not supported for members of any name: want 0 or 1", least)
	}
	if further == none && least > int32(len(members)) {
		return none, nil
	}
	top := max(1, least)
	if most != unlimited {
		top = max(top, min(most, int32(len(members))))
	}
	if int64(top)*int64(len(members)) > maxCounted {
		return none, refuse(parts[0].at, "an object of %d members that are counted up to %d is too large", len(members), top)
	}
	return b.cat(b.seq(b.mark("{"), b.space), b.ordered(members, least, most, top, b.comma(), func(c int32) int32 {
		return b.tail(further, c, least, most)
	})), nil
}

// ordered matches the members in their order and the end of an object with least to most members: what end
// returns for a number of members. States count members up to top.
func (b *builder) ordered(members []member, least, most, top, comma int32, end func(c int32) int32) int32 {
	next := make([]int32, top+1) // by the number of members before
	for c := range next {
		next[c] = end(int32(c))
	}
	for i := len(members) - 1; i >= 0; i-- {
		now := make([]int32, top+1)
		for c := range now {
			with := none
			if most == unlimited || int32(c) < most {
				with = b.cat(members[i].node, next[min(c+1, int(top))])
				if c > 0 {
					with = b.cat(comma, with)
				}
			}
			if members[i].required {
				now[c] = with
			} else {
				now[c] = b.later(b.alt(with, next[c]), len(members))
			}
		}
		next = now
	}
	return next[0]
}

// later puts a node of an object with many members behind a reference, so that alternatives stay short.
func (b *builder) later(id int32, members int) int32 {
	if members < 64 || id == none {
		return id
	}
	ref := b.declare(b.nodes[id].nullable)
	b.define(ref, id)
	return ref
}

// tail matches the further members behind c others, and the end of the object.
func (b *builder) tail(further, c, least, most int32) int32 {
	end := b.mark("}")
	if c > 0 {
		end = b.cat(b.space, end)
	}
	left := most
	if most != unlimited {
		left = most - c
	}
	switch {
	case left != unlimited && left < 0:
		return none
	case left == 0 || further == none:
		if c < least {
			return none
		}
		return end
	case c > 0:
		return b.cat(b.rep(b.cat(b.comma(), further), max(0, least-c), left), end)
	}
	return b.cat(b.series(further, least, left), end)
}

// members returns the members that the parts name.
func (b *builder) members(parts []part) ([]member, error) {
	var names []string
	required, known := map[string]bool{}, map[string]bool{}
	add := func(name string) {
		if !known[name] {
			names, known[name] = append(names, name), true
		}
	}
	for _, p := range parts {
		if of, ok := p.of["properties"].(*object); ok {
			for _, name := range of.keys {
				add(name)
			}
		}
	}
	for _, p := range parts {
		for _, name := range listOf(&p.object, "required") {
			add(name.(string))
			required[name.(string)] = true
		}
	}
	if len(names) > maxMembers {
		return nil, refuse(parts[0].at, "the object has %d members with a name; want at most %d", len(names), maxMembers)
	}
	var out []member
	for _, name := range names {
		places, err := valueOf(parts, name)
		if err != nil {
			return nil, err
		}
		allowed, err := b.mayName(parts, name)
		if err != nil {
			return nil, err
		}
		value := none
		if allowed {
			if value, err = b.ruleOr(places); err != nil {
				return nil, err
			}
		}
		out = append(out, member{name, required[name], places, value, b.cat(b.key(b.named(name)), value)})
	}
	return out, nil
}

// ruleOr returns the rule of places, any value if there are none.
func (b *builder) ruleOr(places []string) (int32, error) {
	if len(places) == 0 {
		return b.anything(), nil
	}
	return b.rule(places)
}

// valueOf returns the places of the schemas of the member with a name.
func valueOf(parts []part, name string) (places []string, err error) {
	for _, p := range parts {
		found := false
		if of, ok := p.of["properties"].(*object); ok {
			if _, has := of.of[name]; has {
				places, found = append(places, below(below(p.at, "properties"), name)), true
			}
		}
		if of, ok := p.of["patternProperties"].(*object); ok {
			for _, pattern := range of.keys {
				re, err := regexp.Compile(fromECMA(pattern))
				if err != nil {
					return nil, refuse(below(below(p.at, "patternProperties"), pattern), "%v", err)
				}
				if re.MatchString(name) {
					places, found = append(places, below(below(p.at, "patternProperties"), pattern)), true
				}
			}
		}
		if _, has := p.of["additionalProperties"]; has && !found {
			places = append(places, below(p.at, "additionalProperties"))
		}
	}
	return places, nil
}

// mayName reports whether propertyNames allow a name.
func (b *builder) mayName(parts []part, name string) (bool, error) {
	for _, p := range parts {
		if _, has := p.of["propertyNames"]; has {
			ok, err := b.satisfies(name, []part{{at: below(p.at, "propertyNames")}})
			if !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// pattern is one of patternProperties.
type pattern struct {
	part  int
	place string
	node  int32 // the contents of the names that match
	wide  int32 // and of those that match in any dialect
}

// further matches a member that no part names; none if there may be none.
func (b *builder) further(parts []part, members []member) (int32, error) {
	patterns, open, err := b.patterns(parts)
	if err != nil {
		return none, err
	}
	var names []int32
	for _, m := range members {
		names = append(names, b.literal(spelled(m.name)))
	}
	limit, err := b.nameLimit(parts)
	if err != nil {
		return none, err
	}
	out := none
	for set := range uint(1) << len(patterns) {
		if set == 0 && !open {
			continue
		}
		places, allowed := placesOf(parts, patterns, set)
		if !allowed {
			continue
		}
		value, err := b.ruleOr(places)
		if err != nil {
			return none, err
		}
		name := b.text
		if len(patterns) > 0 || len(names) > 0 || limit != all {
			fits := []int32{b.rep(b.exact, 0, unlimited), b.not(b.alt(names...)), limit}
			for i, p := range patterns {
				if set>>i&1 == 1 {
					fits = append(fits, p.node)
				} else {
					fits = append(fits, b.not(p.wide))
				}
			}
			name = b.quoted(b.alive(b.and(fits...)))
		}
		out = b.alt(out, b.cat(b.key(name), value))
	}
	return out, nil
}

// patterns returns the patterns of names, and whether other members may have names that match none. A
// schema with properties that says nothing of others has no others: what is generated stays valid.
func (b *builder) patterns(parts []part) (all []pattern, open bool, err error) {
	said, names := false, false
	for i, p := range parts {
		_, has := p.of["additionalProperties"]
		said = said || has
		_, has = p.of["properties"]
		names = names || has
		of, ok := p.of["patternProperties"].(*object)
		if !ok {
			continue
		}
		names = true
		for _, key := range of.keys {
			place := below(below(p.at, "patternProperties"), key)
			node, err := b.search(key, narrow)
			if err != nil {
				return nil, false, refuse(place, "%v", err)
			}
			any, _ := b.search(key, wide)
			all = append(all, pattern{i, place, node, any})
		}
	}
	if len(all) > maxPatterns {
		return nil, false, refuse(parts[0].at, "patternProperties has %d patterns; want at most %d", len(all), maxPatterns)
	}
	return all, said || !names, nil
}

// placesOf returns the places of the schemas of members whose names match a set of patterns. There are
// none if a part allows no further members.
func placesOf(parts []part, patterns []pattern, set uint) (places []string, allowed bool) {
	matched := make([]bool, len(parts))
	for rest := set; rest != 0; rest &= rest - 1 {
		p := patterns[bits.TrailingZeros(rest)]
		places, matched[p.part] = append(places, p.place), true
	}
	for i, p := range parts {
		switch more, has := p.of["additionalProperties"]; {
		case !has || matched[i]:
		case more == false:
			return nil, false
		default:
			places = append(places, below(p.at, "additionalProperties"))
		}
	}
	return places, true
}

// nameLimit matches the contents of the names that propertyNames allow; all if there is none.
func (b *builder) nameLimit(parts []part) (int32, error) {
	out := all
	for _, p := range parts {
		if _, has := p.of["propertyNames"]; !has {
			continue
		}
		sets, err := b.alternatives([]string{below(p.at, "propertyNames")}, nil)
		if err != nil {
			return none, err
		}
		one := none
		for _, set := range sets {
			content, err := b.names(set)
			if err != nil {
				return none, err
			}
			one = b.alt(one, content)
		}
		out = b.and(out, one)
	}
	return out, nil
}

// names matches the contents of the names that satisfy all parts.
func (b *builder) names(parts []part) (int32, error) {
	values, listed := valuesOf(parts)
	if !listed {
		if allowed, _ := typesOf(parts, false); !slices.Contains(allowed, "string") {
			return none, nil
		}
		return b.content(parts)
	}
	if len(values) > maxListed {
		return none, refuse(parts[0].at, "it has %d values; want at most %d", len(values), maxListed)
	}
	var texts []string
	for _, v := range values {
		name, isText := v.(string)
		if !isText {
			continue
		}
		fits, err := b.satisfies(name, parts)
		if err != nil {
			return none, err
		}
		if fits {
			texts = append(texts, spelled(name))
		}
	}
	return b.tree(slices.Compact(slices.Sorted(slices.Values(texts))), 0), nil
}
