package constraint

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// suiteCase is a schema of the JSON Schema Test Suite with instances: a description, whether the instance is
// valid, and the instance.
type suiteCase struct {
	File, Group string
	Schema      json.RawMessage
	Tests       [][3]json.RawMessage
}

func readSuite(t *testing.T) (all []suiteCase) {
	packed, err := os.ReadFile("testdata/json-schema-test-suite.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all
		}
		var one suiteCase
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// spellings returns the texts of a value: with its members in every order, spaced and compact.
func spellings(v any, compact bool) []string {
	comma, colon := ", ", ": "
	if compact {
		comma, colon = ",", ":"
	}
	const most = 800
	join := func(heads []string, sep string, tails []string) (out []string) {
		for _, h := range heads {
			for _, tail := range tails {
				if len(out) < most {
					out = append(out, h+sep+tail)
				}
			}
		}
		return out
	}
	switch v := v.(type) {
	case []any:
		all := []string{"["}
		for i, x := range v {
			sep := comma
			if i == 0 {
				sep = ""
			}
			all = join(all, sep, spellings(x, compact))
		}
		return join(all, "", []string{"]"})
	case *object:
		var all []string
		for _, order := range orders(v.keys) {
			some := []string{"{"}
			for i, key := range order {
				sep := comma
				if i == 0 {
					sep = ""
				}
				some = join(some, sep+`"`+spelled(key)+`"`+colon, spellings(v.of[key], compact))
			}
			all = append(all, join(some, "", []string{"}"})...)
		}
		return all[:min(len(all), most)]
	case string:
		return []string{`"` + spelled(v) + `"`}
	}
	text, _ := json.Marshal(v)
	return []string{string(text)}
}

// orders returns the permutations of up to five keys; of more, the two that sort them and keep them.
func orders(keys []string) (all [][]string) {
	if len(keys) > 5 {
		return [][]string{keys, slices.Sorted(slices.Values(keys))}
	}
	if len(keys) == 0 {
		return [][]string{nil}
	}
	for i, key := range keys {
		for _, rest := range orders(slices.Concat(keys[:i], keys[i+1:])) {
			all = append(all, append([]string{key}, rest...))
		}
	}
	return all
}

// takes reports whether a grammar matches a text.
func takes(g *grammar, text string) bool {
	at := g.start
	for i := range len(text) {
		at = g.masks.g.step(at, text[i])
	}
	g.masks.g.work = maskWork
	return g.masks.g.nodes[at].nullable
}

// narrower are the groups of the suite that have a valid instance which no reply is, with the reason. A
// form narrows a schema, but for two more reasons, which narrowedBy knows.
var narrower = map[string]string{
	"additionalProperties: additionalProperties are allowed by default":             aClosed,
	"anyOf: anyOf complex types":                                                    aClosed,
	"patternProperties: patternProperties with Unicode property escape":             aClosed,
	"patternProperties: regexes are not anchored by default and are case sensitive": aClosed,
	"prefixItems: a schema given for prefixItems":                                   aClosed,
	"prefixItems: additional items are allowed by default":                          aClosed,
	"properties: object properties validation":                                      aClosed,
	"uniqueItems: uniqueItems=false with an array of items":                         aClosed,
	"const: const with -2.0 matches integer and float types":                        aSpelling,
	"const: const with 0 does not match other zero-like types":                      aSpelling,
	"const: const with 1 does not match true":                                       aSpelling,
	"const: float and integers are equal up to 64-bit representation limits":        aSpelling,
	"enum: enum with 0 does not match false":                                        aSpelling,
	"enum: enum with 1 does not match true":                                         aSpelling,
	"enum: enum with [0] does not match [false]":                                    aSpelling,
	"enum: enum with [1] does not match [true]":                                     aSpelling,
	"type: integer type matches integers":                                           aSpelling,
	"optional/bignum: integer":                                                      "numbers have at most 15 digits before the point",
	"optional/bignum: number":                                                       "numbers have at most 15 digits before the point",
	"optional/ecmascript-regex: ECMA 262 \\s matches whitespace":                    "dialects disagree on these spaces",
	"ref: root pointer ref":                                                         "properties imply an object",
	"ref: ref overrides any sibling keywords":                                       "keywords beside a $ref hold in older drafts, too",
}

const (
	aClosed   = "a schema that names members or first elements has no others, unless it says so"
	aSpelling = "a listed number and an integer have one spelling"
)

// narrowedBy returns why a reply may not be a valid instance; "" if nothing says so.
func narrowedBy(c suiteCase, value any) string {
	var of map[string]any
	if json.Unmarshal(c.Schema, &of) != nil {
		return ""
	}
	if _, has := of["format"]; has {
		return "formats are narrower"
	}
	_, named := of["type"]
	implied := false
	for key := range of {
		implied = implied || honoured[key] != ""
	}
	kind := "object"
	switch value.(type) {
	case nil:
		kind = "null"
	case []any:
		kind = "array"
	case string:
		kind = "string"
	case json.Number:
		kind = "number"
	case bool:
		kind = "boolean"
	}
	if implied && !named && !slices.ContainsFunc(slices.Collect(maps.Keys(of)), func(key string) bool { return honoured[key] == kind }) {
		return "keywords imply a type"
	}
	_, name, _ := strings.Cut(c.File, "/")
	return narrower[name+": "+c.Group]
}

// Each schema of the JSON Schema Test Suite is refused in a sentence, or its form takes no invalid instance
// and leaves out valid ones for known reasons alone; what the form writes is valid.
func TestSuite(t *testing.T) {
	v := words()
	schemas, compiled, valid, taken, invalid, ended := 0, 0, 0, 0, 0, 0
	for _, c := range readSuite(t) {
		name := c.File + ": " + c.Group
		schemas++
		at, err := v.Compile(Form{Schema: c.Schema})
		if err != nil {
			text := err.Error()
			says := func(beginning string) bool { return strings.HasPrefix(text, beginning) }
			if strings.Contains(text, "\n") || len(text) > 700 ||
				!slices.ContainsFunc([]string{"at #", "the schema is not valid: ", "no text fits"}, says) {
				t.Errorf("%s: %s", name, text)
			}
			continue
		}
		compiled++
		for _, test := range c.Tests {
			d := json.NewDecoder(bytes.NewReader(test[2]))
			d.UseNumber()
			value, err := readValue(d, 0)
			if err != nil {
				t.Fatal(err)
			}
			fits := slices.ContainsFunc(append(spellings(value, false), spellings(value, true)...), func(text string) bool {
				return takes(at.(*cursor).g, text)
			})
			switch isValid := string(test[1]) == "true"; {
			case !isValid && fits && !strings.HasPrefix(c.File, "draft7/optional/content"): // contentEncoding is an annotation
				t.Errorf("%s: %s: takes %s under %s", name, test[0], test[2], c.Schema)
			case !isValid:
				invalid++
			case fits:
				valid, taken = valid+1, taken+1
			default:
				if valid++; narrowedBy(c, value) == "" {
					t.Errorf("%s: %s: does not take %s under %s", name, test[0], test[2], c.Schema)
				}
			}
		}
		ended += check(t, v, string(c.Schema), 2, 120)
	}
	t.Logf("%d of %d schemas compile; of their instances, %d of %d valid ones and none of %d invalid ones fit; %d texts ended",
		compiled, schemas, taken, valid, invalid, ended)
	if compiled < 940 || taken < 1500 || ended < 1800 {
		t.Error("too few")
	}
}

// validates reads schemas and texts in lines and prints the texts that package jsonschema of Python refuses.
const validates = `
import json, sys
import jsonschema
for line in sys.stdin:
    schema, text = json.loads(line)
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    for error in validator(schema).iter_errors(json.loads(text)):
        print(json.dumps(schema), repr(text), error.message)
`

// A validator in another language, with its own numbers and expressions, finds no fault with replies.
func TestPythonAgrees(t *testing.T) {
	python := os.Getenv("TRINITY_COMPAT_PYTHON")
	if python == "" {
		t.Skip("TRINITY_COMPAT_PYTHON is not set")
	}
	all := slices.Clone(schemas)
	for seed := range uint64(300) {
		all = append(all, randomSchema(rand.New(rand.NewPCG(seed, 11)), 3))
	}
	for _, c := range readSuite(t) {
		all = append(all, string(c.Schema))
	}
	v := words()
	var lines bytes.Buffer
	for _, schema := range all {
		c, err := v.Compile(Form{Schema: json.RawMessage(schema)})
		notOfPython := func(escape string) bool { return strings.Contains(schema, escape) }
		if err != nil || slices.ContainsFunc([]string{"u{1F600}", `\\p{`, `\\c`}, notOfPython) {
			continue
		}
		for seed := range uint64(3) {
			if text, ended := write(t, v, c.Fork(), rand.New(rand.NewPCG(seed, 13)), 120); ended {
				line, err := json.Marshal([]any{json.RawMessage(schema), text})
				if err != nil {
					t.Fatal(err)
				}
				lines.Write(append(line, '\n'))
			}
		}
	}
	if bytes.Count(lines.Bytes(), []byte("\n")) < 2000 {
		t.Error("too few texts")
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", validates)
	cmd.Stdin = &lines
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
