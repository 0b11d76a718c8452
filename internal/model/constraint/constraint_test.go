package constraint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/trinity-go/trinity"
)

// stop ends replies in these tests.
const stop = 256

// words returns a vocabulary of all bytes and of common and odd pieces of JSON.
func words() *Vocabulary {
	var texts []string
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}))
	}
	texts = append(texts, "") // stop
	texts = append(texts,
		`{"`, `":`, `": "`, `", "`, `"}`, `"},`, `}}`, `]]`, `[[`, `["`, `"]`, `{}`, `[]`, `null`, `true`,
		`false`, ` true`, `",`, "\n  ", "\n", "\n\n",
		`"a`, `"ab`, `"a":`, `abc`, `aaaa`, `aaaaaaaa`, `00`, `123`, `-1`, `1.`, `.5`, `e+`, `é`, "\xc3", "\xa9\"", `\n`, `\u00`, `\\`, `\"`,
		`😀`, "\xf0\x9f", `the `, `, "`, `: [`, `"id`, `name`, `"name": "`, `"]}`, `20`, `-0`, `T1`, `Z"`, `@a.`,
	)
	return newVocabulary(texts, []int32{stop})
}

// slow returns the mask of a cursor as its definition says: one token after the other, byte by byte.
func slow(c trinity.Constraint, size int) []uint64 {
	out := make([]uint64, (size+63)/64)
	for token := range int32(size) {
		if c.Fork().Accept(token) == nil {
			out[token/64] |= 1 << (token % 64)
		}
	}
	return out
}

// write draws a text uniformly among the allowed tokens, and now and then prefers the end. It checks
// masks against slow.
func write(t *testing.T, v *Vocabulary, c trinity.Constraint, r *rand.Rand, most int) (text string, ended bool) {
	t.Helper()
	mask := make([]uint64, (v.size+63)/64)
	for n := range most {
		c.Mask(mask)
		if n < 20 || r.IntN(1+v.size/40) == 0 {
			if want := slow(c, v.size); !slices.Equal(mask, want) {
				t.Fatalf("after %q: the mask is\n%s\nwant\n%s", text, v.show(mask), v.show(want))
			}
		}
		var allowed []int32
		for token := range int32(v.size) {
			if mask[token/64]>>(token%64)&1 == 1 {
				allowed = append(allowed, token)
			}
		}
		if len(allowed) == 0 {
			t.Fatalf("after %q: a dead end", text)
		}
		token := allowed[r.IntN(len(allowed))]
		for _, end := range []string{`"`, `}`, `]`} { // else texts have no end
			if id := int32(end[0]); n > most/8 && r.IntN(3) > 0 && slices.Contains(allowed, id) {
				token = id
			}
		}
		if mask[stop/64]>>(stop%64)&1 == 1 && (n > most/8 || r.IntN(3) == 0) {
			token = stop
		}
		if err := c.Accept(token); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		if token == stop {
			return text, true
		}
		text += v.texts[token]
	}
	return text, false
}

func (v *Vocabulary) show(mask []uint64) string {
	var all []string
	for token := range v.size {
		if mask[token/64]>>(token%64)&1 == 1 {
			all = append(all, fmt.Sprintf("%d%q", token, v.texts[token]))
		}
	}
	return strings.Join(all, " ")
}

func checker(t *testing.T, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { return regexp.Compile(fromECMA(pattern)) })
	if err := c.AddResource("mem:x", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:x")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check writes texts under a schema and validates those that ended.
func check(t *testing.T, v *Vocabulary, schema string, seeds, most int) (ended int) {
	t.Helper()
	c, err := v.Compile(Form{Schema: json.RawMessage(schema)})
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	s := checker(t, schema)
	for seed := range seeds {
		text, whole := write(t, v, c.Fork(), rand.New(rand.NewPCG(uint64(seed), 7)), most)
		if !whole {
			continue
		}
		ended++
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
		if err != nil {
			t.Fatalf("%s: %q: %v", schema, text, err)
		}
		if err := s.Validate(value); err != nil {
			t.Fatalf("%s: %q: %v", schema, text, err)
		}
	}
	return ended
}

var schemas = []string{
	`{}`,
	`true`,
	`{"type":"object"}`,
	`{"type":"string"}`,
	`{"type":"string","minLength":3,"maxLength":9}`,
	`{"type":"string","maxLength":0}`,
	`{"type":"string","minLength":2}`,
	`{"type":"string","pattern":"^[a-c]{2,4}é?$"}`,
	`{"type":"string","pattern":"b+","maxLength":6}`,
	`{"type":"string","pattern":"\"|\\\\","minLength":2}`,
	`{"type":"string","pattern":"^a|b$"}`,
	`{"type":"string","pattern":"^$|^[0-9]{3}$"}`,
	`{"type":"string","pattern":"(^|,)a(,|$)","maxLength":4}`,
	`{"type":"string","pattern":"^(x?)^a$b*$"}`,
	`{"type":"string","pattern":"^\\u0041\\u{1F600}\\uD83D\\uDE00\\cJ$"}`,
	`{"type":"integer"}`,
	`{"type":"integer","format":"int8"}`,
	`{"type":"integer","format":"uint16","minimum":65000,"allOf":[{"multipleOf":4},{"multipleOf":6}]}`,
	`{"type":"number","format":"double","maximum":7}`,
	`{"type":"integer","minimum":-17,"maximum":203}`,
	`{"type":"integer","exclusiveMinimum":9,"maximum":10}`,
	`{"type":"integer","multipleOf":7,"minimum":100,"maximum":1000}`,
	`{"type":"integer","multipleOf":365,"minimum":0,"maximum":1000000}`,
	`{"type":"string","pattern":"^[\\p{L} .'-]{1,100}$","minLength":2,"maxLength":9}`,
	`{"type":"number"}`,
	`{"type":"number","minimum":0.25,"exclusiveMaximum":1}`,
	`{"type":"number","minimum":-1.5,"maximum":-0.05}`,
	`{"type":"number","exclusiveMinimum":-10.5,"maximum":1e2}`,
	`{"type":"number","multipleOf":0.01,"minimum":0}`,
	`{"type":"boolean"}`,
	`{"type":["null","integer"],"minimum":5}`,
	`{"enum":["a","b\"c",1,null,{"x":[1,2]}]}`,
	`{"enum":["a",1,true],"type":"string"}`,
	`{"const":"é\n"}`,
	`{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":4}`,
	`{"type":"array","prefixItems":[{"type":"boolean"},{"type":"null"}],"items":{"type":"integer"},"maxItems":3}`,
	`{"type":"array","prefixItems":[{"type":"boolean"},{"type":"null"}],"minItems":1}`,
	`{"type":"array","items":false}`,
	`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a","b"],"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"ab":{"const":1}},"required":["b"]}`,
	`{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"minProperties":2,"maxProperties":2}`,
	`{"type":"object","properties":{"a":{"const":1}},"additionalProperties":{"type":"boolean"}}`,
	`{"type":"object","additionalProperties":{"type":"null"},"minProperties":1,"maxProperties":2}`,
	`{"type":"object","patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":3,"type":"integer"}},"additionalProperties":false}`,
	`{"type":"object","properties":{"ab":{"maximum":9}},"patternProperties":{"^a":{"type":"integer"}},"required":["ab"]}`,
	`{"type":"object","propertyNames":{"pattern":"^[a-z]+$","maxLength":3},"additionalProperties":{"const":0}}`,
	`{"type":"object","propertyNames":{"enum":["a","é","b c"]},"additionalProperties":{"const":0}}`,
	`{"type":"object","properties":{"a":{"const":1}},"propertyNames":{"enum":["a","ab"],"maxLength":1},"additionalProperties":{"const":0}}`,
	`{"type":"object","required":["x"]}`,
	`{"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"null"}}]}`,
	`{"oneOf":[{"type":"integer"},{"type":"string"}]}`,
	`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k"]},` +
		`{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]}`,
	`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},` +
		`{"properties":{"a":{"minimum":10},"b":{"const":1}}}]}`,
	`{"type":"integer","anyOf":[{"minimum":100},{"maximum":-100}]}`,
	`{"$ref":"#/$defs/list","$defs":{"list":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/list"},` +
		`{"type":"null"}]}},"required":["v","next"]}}}`,
	`{"type":"object","properties":{"a":{"$ref":"#"}}}`,
	`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"$ref":"#/properties/a"}},"required":["b"]},"c":{"const":1}}}`,
	`{"$defs":{"a/b~c d":{"type":"null"}},"$ref":"#/$defs/a~1b~0c%20d"}`,
	`{"enum":[1],"$defs":{"a b%":{"type":"object","properties":{"x y":{"enum":["1"]}}}},"description":"x"}`,
	`{"type":"object","properties":{"x y%#\"é":{"enum":["1",2],"type":"integer"}},"required":["x y%#\"é"]}`,
	`{"type":"string","format":"date"}`,
	`{"type":"string","format":"time"}`,
	`{"type":"string","format":"date-time"}`,
	`{"type":"string","format":"duration"}`,
	`{"type":"string","format":"email"}`,
	`{"type":"string","format":"hostname"}`,
	`{"type":"string","format":"ipv4"}`,
	`{"type":"string","format":"ipv6"}`,
	`{"type":"string","format":"uuid"}`,
	`{"type":"string","format":"uri"}`,
}

func TestRepliesAreValid(t *testing.T) {
	v := words()
	for _, schema := range schemas {
		if ended := check(t, v, schema, 6, 400); ended == 0 {
			t.Errorf("%s: no reply ended", schema)
		}
	}
}

func TestExpressions(t *testing.T) {
	v := words()
	for _, pattern := range []string{
		`a|b+c`, `^[A-F0-9]{2,3}$`, `(?i)abé`, `(the |aa)*x`, `[^a-z"]{1,5}`, `\d+\.\d\d?`, `.{0,3}é`, `(?s).?`, `ab?$`,
	} {
		c, err := v.Compile(Form{Regex: pattern})
		if err != nil {
			t.Fatal(pattern, err)
		}
		re := regexp.MustCompile(`^(?:` + pattern + `)$`)
		for seed := range uint64(20) {
			text, ended := write(t, v, c.Fork(), rand.New(rand.NewPCG(seed, 1)), 60)
			if ended && !re.MatchString(text) {
				t.Errorf("%s: %q", pattern, text)
			}
		}
	}
}

// Replies of one form, and of new ones, are written at once.
func TestConcurrentReplies(t *testing.T) {
	v := words()
	var group sync.WaitGroup
	for n := range uint64(8) {
		group.Go(func() {
			for i := range 6 {
				schema := json.RawMessage(schemas[(int(n%2)*5+i)%len(schemas)])
				c, err := v.Compile(Form{Schema: schema})
				if err != nil {
					t.Error(err)
					return
				}
				r, mask := rand.New(rand.NewPCG(n, 1)), make([]uint64, (v.size+63)/64)
				for range 60 {
					c.Mask(mask)
					token := int32(r.IntN(v.size))
					for mask[token/64]>>(token%64)&1 == 0 {
						token = (token + 1) % int32(v.size)
					}
					if err := c.Fork().Accept(token); err != nil || c.Accept(token) != nil {
						t.Error(err)
						return
					}
					if token == stop {
						break
					}
				}
			}
		})
	}
	group.Wait()
	if len(v.cache.of) > maxGrammars {
		t.Errorf("%d grammars are kept", len(v.cache.of))
	}
}

// Grammars that grow push out those that were asked for before them, not the newest one.
func TestCacheIsBounded(t *testing.T) {
	v := words()
	compile := func(text string) *cursor {
		c, err := v.Compile(Form{Regex: text})
		if err != nil {
			t.Fatal(err)
		}
		return c.(*cursor)
	}
	first := compile("x.{900}")
	one := first.g.size()
	for range 900 {
		if err := first.Accept('x'); err != nil {
			t.Fatal(err)
		}
	}
	if grown := first.g.size(); grown < one+900*nodeSize {
		t.Errorf("a grammar of %d bytes has %d after 900 new states", one, grown)
	}
	second := compile("y")
	for _, c := range []struct{ most, kept int }{{first.g.size() + second.g.size() + 999, 2}, {second.g.size() + 999, 1}, {0, 1}} {
		if v.cache.trim(c.most); len(v.cache.of) != c.kept || compile("y").g != second.g {
			t.Errorf("of %d bytes %d grammars are kept, want %d", c.most, len(v.cache.of), c.kept)
		}
	}
}

// A mask and a token of a state that is known allocate nothing.
func TestMasksDoNotAllocate(t *testing.T) {
	v := words()
	c, err := v.Compile(Form{Schema: json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"}},"required":["s"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range `{"s":"` {
		if err := c.Accept(token); err != nil {
			t.Fatal(err)
		}
	}
	mask := make([]uint64, (v.size+63)/64)
	one := func() {
		if c.Mask(mask); c.Accept('a') != nil {
			t.Error("a does not fit")
		}
	}
	one()
	if n := testing.AllocsPerRun(100, one); n != 0 {
		t.Errorf("%v allocations a token", n)
	}
}

func TestChoices(t *testing.T) {
	v := words()
	choices := []string{"abc", "aaaa b", "é", `"`}
	c, err := v.Compile(Form{Choice: choices})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for seed := range uint64(40) {
		text, ended := write(t, v, c.Fork(), rand.New(rand.NewPCG(seed, 1)), 60)
		if !ended || !slices.Contains(choices, text) {
			t.Errorf("%q", text)
		}
		seen[text] = true
	}
	if len(seen) != len(choices) {
		t.Errorf("wrote %v", seen)
	}
}
