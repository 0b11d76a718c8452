package constraint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of what a schema turns into.
const (
	maxParts   = 256   // schemas that hold for one value, and alternatives of it
	maxRules   = 5000  // values of different schemas
	maxLookups = 50000 // schemas that hold for all of them
	maxListed  = 5000  // values of an enum
	maxPlace   = 400   // bytes of a place in an error
	maxCounted = 20000 // members × numbers of members, of an object whose members are counted
)

// compiler turns schemas into rules. A rule is the value that satisfies some places of the schema at
// once, so rules are finite however references run in circles.
type compiler struct {
	root    any
	checker *jsonschema.Compiler
	rulesOf map[string]int32 // by places
	keyOf   []string         // places by rule; "" for rules of other kinds
	todo    []job
	dead    map[string]bool // places that no value satisfies
	looked  int             // at parts of the schema
	draft4  bool            // the schema is of draft 4, whose $id is id
}

// job is a rule whose body is not built.
type job struct {
	ref    int32
	places []string
}

// schema matches the values that satisfy a schema.
func (b *builder) schema(text json.RawMessage) (int32, error) {
	root, checker, err := readSchema(text)
	if err != nil {
		return none, err
	}
	if _, err := checker.Compile(schemaName); err != nil {
		return none, invalid(root, err)
	}
	b.root, b.checker, b.dead = root, checker, map[string]bool{}
	if o, ok := root.(*object); ok {
		draft, _ := o.of["$schema"].(string)
		b.draft4 = strings.Contains(draft, "draft-04")
	}
	for {
		b.rulesOf, b.keyOf = map[string]int32{}, nil
		start, err := b.start()
		if err == nil {
			err = b.work()
		}
		if err != nil || b.err != nil {
			return none, cmp.Or(err, b.err)
		}
		known := len(b.dead)
		for i, yes := range b.productive() {
			if i < len(b.keyOf) && b.keyOf[i] != "" && !yes {
				b.dead[b.keyOf[i]] = true
			}
		}
		if len(b.dead) == known {
			return start, nil
		} // else once more, without the values that never end
	}
}

// start matches the whole value; the arguments of a call are an object.
func (b *builder) start() (int32, error) {
	if !b.isCall {
		return b.rule([]string{""})
	}
	sets, err := b.alternatives([]string{""}, nil)
	if err != nil {
		return none, err
	}
	var list []int32
	for _, parts := range sets {
		if allowed, _ := typesOf(parts, false); !slices.Contains(allowed, "object") {
			continue
		}
		values, listed := valuesOf(parts)
		var x int32
		switch {
		case listed && (b.keywords || slices.ContainsFunc(values, func(v any) bool { _, ok := v.(*object); return !ok })):
			err = refuse(parts[0].at, "the arguments of a call are an object with members: list no values of it")
		case b.keywords:
			x, err = b.asKeywords(parts)
		case listed:
			x, err = b.alternative(parts)
		case !slices.ContainsFunc(parts, part.limits):
			x = b.anyObject()
		default:
			x, err = b.typed(parts, []string{"object"}, false)
		}
		if err != nil {
			return none, err
		}
		list = append(list, x)
	}
	if list == nil {
		return none, refuse("", "the arguments of a call are an object: set the type to \"object\"")
	}
	return b.alt(list...), nil
}

// work builds the bodies of rules, which declare more of them.
func (b *builder) work() error {
	for len(b.todo) > 0 {
		j := b.todo[len(b.todo)-1]
		b.todo = b.todo[:len(b.todo)-1]
		body, err := b.compile(j.places)
		if err != nil {
			return err
		}
		b.define(j.ref, body)
	}
	return nil
}

// rule returns the rule of a value that satisfies the schemas at places; none if no value does.
func (b *builder) rule(places []string) (int32, error) {
	places = slices.Compact(slices.Sorted(slices.Values(places)))
	key := "#" + strings.Join(places, "\n#")
	if b.dead[key] {
		return none, nil
	}
	if ref, ok := b.rulesOf[key]; ok {
		return ref, nil
	}
	if len(b.rulesOf) >= maxRules {
		return none, fmt.Errorf("the schema describes more than %d different values", maxRules)
	}
	ref := b.declare(false)
	for len(b.keyOf) < len(b.rules)-1 {
		b.keyOf = append(b.keyOf, "")
	}
	b.keyOf, b.rulesOf[key] = append(b.keyOf, key), ref
	b.todo = append(b.todo, job{ref, places})
	return ref, nil
}

// refuse returns the error of a place that a constraint cannot honour.
func refuse(at, format string, args ...any) error {
	if len(at) > maxPlace {
		at = at[:maxPlace/2] + "…" + at[len(at)-maxPlace/2:]
	}
	at = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return utf8.RuneError
		}
		return c
	}, at)
	return fmt.Errorf("at #%s: %s", at, fmt.Sprintf(format, args...))
}

// part is an object of the schema with its place.
type part struct {
	at string
	object
}

// compile returns the body of a rule.
func (b *builder) compile(places []string) (int32, error) {
	sets, err := b.alternatives(places, nil)
	if err != nil {
		return none, err
	}
	var list []int32
	for _, parts := range sets {
		x, err := b.alternative(parts)
		if err != nil {
			return none, err
		}
		list = append(list, x)
	}
	return b.alt(list...), nil
}

// link is a place that holds for a value because one above it does.
type link struct {
	at    string
	above *link
}

func (l *link) repeats() bool {
	for up := l.above; up != nil; up = up.above {
		if up.at == l.at {
			return true
		}
	}
	return false
}

// alternatives returns the sets of parts one of which a value satisfies whole: it follows references and
// allOf, and multiplies out anyOf and oneOf.
func (b *builder) alternatives(places []string, above *link) ([][]part, error) {
	sets := [][]part{{}}
	seen := map[string]bool{}
	var todo []*link
	for _, at := range places {
		todo = append(todo, &link{at, above})
	}
	for len(todo) > 0 {
		now := todo[0]
		at := now.at
		todo = todo[1:]
		if now.repeats() {
			return nil, refuse(at, "the schema refers to itself without an object or an array between")
		}
		if seen[at] {
			continue
		}
		if b.looked++; b.looked > maxLookups {
			return nil, refuse(at, "the schema has too many alternatives and references")
		}
		if seen[at] = true; len(seen) > maxParts {
			return nil, refuse(at, "more than %d schemas hold for one value", maxParts)
		}
		v, ok := lookup(b.root, at)
		o, isObject := v.(*object)
		switch {
		case !ok:
			return nil, refuse(at, "there is nothing here, and a $ref points to it")
		case v == true:
			continue
		case v == false:
			return nil, nil
		case !isObject && strings.HasSuffix(at, "/items"):
			return nil, refuse(at, "a list of schemas is of an older draft: write prefixItems")
		case !isObject:
			return nil, refuse(at, "want a schema")
		}
		if err := checkKeywords(at, o); err != nil {
			return nil, err
		}
		for i := range sets {
			sets[i] = append(slices.Clip(sets[i]), part{at, *o})
		}
		if ref, ok := o.of["$ref"]; ok {
			to, err := b.refers(at, ref)
			if err != nil {
				return nil, err
			}
			todo = append(todo, &link{to, now})
		}
		for i := range len(listOf(o, "allOf")) {
			todo = append(todo, &link{fmt.Sprintf("%s/allOf/%d", at, i), now})
		}
		var err error
		if sets, err = b.multiply(sets, part{at, *o}, now); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// multiply joins each set with each alternative of a part's anyOf and oneOf.
func (b *builder) multiply(sets [][]part, p part, now *link) ([][]part, error) {
	for _, key := range []string{"anyOf", "oneOf"} {
		if _, has := p.of[key]; !has {
			continue
		}
		var more [][]part
		var each [][][]part
		for i := range len(listOf(&p.object, key)) {
			inner, err := b.alternatives([]string{fmt.Sprintf("%s/%s/%d", p.at, key, i)}, now)
			if err != nil {
				return nil, err
			}
			each = append(each, inner)
			for _, x := range inner {
				for _, s := range sets {
					more = append(more, slices.Concat(s, x))
				}
			}
			if len(more) > maxParts {
				return nil, refuse(p.at, "%s has more than %d alternatives in all", key, maxParts)
			}
		}
		if key == "oneOf" {
			if err := b.excludeEachOther(p.at, each); err != nil {
				return nil, err
			}
		}
		sets = more
	}
	return sets, nil
}

func listOf(o *object, key string) []any {
	list, _ := o.of[key].([]any)
	return list
}

// refers returns the place that a $ref names. Below an $id it would be a place of another schema.
func (b *builder) refers(at string, ref any) (string, error) {
	text, _ := ref.(string)
	for up := at; up != ""; up = up[:strings.LastIndexByte(up, '/')] {
		v, _ := lookup(b.root, up)
		o, _ := v.(*object)
		for _, key := range []string{"$id", "id"} {
			if o == nil {
				break
			}
			if id, _ := o.of[key].(string); id != "" && (key == "$id" || b.draft4) {
				return "", refuse(below(at, "$ref"), "#%s has an %s, so %q does not point into the whole schema: leave the %s out",
					up, key, text, key)
			}
		}
	}
	return pointed(at, text)
}

// honoured are the keywords that a constraint enforces, by the type that they imply for a schema that
// names none.
var honoured = map[string]string{
	"type": "", "enum": "", "const": "", "$ref": "", "allOf": "", "anyOf": "", "oneOf": "",
	"properties": "object", "required": "object", "additionalProperties": "object", "patternProperties": "object",
	"propertyNames": "object", "minProperties": "object", "maxProperties": "object",
	"items": "array", "prefixItems": "array", "minItems": "array", "maxItems": "array",
	"minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number", "multipleOf": "number",
}

// annotations are the keywords that say nothing about which values are valid, with those of OpenAPI that
// clients leave in their schemas.
var annotations = strings.Fields("$schema $id $anchor $comment $defs definitions title description default examples deprecated readOnly " +
	"writeOnly contentEncoding contentMediaType contentSchema discriminator example externalDocs xml id")

// idle are the keywords that say nothing unless another one stands beside them.
var idle = map[string]string{"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}

// checkKeywords refuses keywords that a constraint cannot honour.
func checkKeywords(at string, o *object) error {
	for _, key := range o.keys {
		_, known := honoured[key]
		switch v := o.of[key]; {
		case known || slices.Contains(annotations, key) || strings.HasPrefix(key, "x-"):
		case idle[key] != "" && o.of[idle[key]] == nil:
		case key == "additionalItems" && o.of["prefixItems"] == nil: // items, if it is a list, is refused itself
		case v == false && (key == "uniqueItems" || key == "nullable"):
		case key == "nullable":
			return refuse(below(at, key), "it is of OpenAPI: write the type as [\"...\", \"null\"]")
		default:
			return refuse(below(at, key), "the keyword %q is not supported: leave it out", key[:min(len(key), 40)])
		}
	}
	return nil
}
