package constraint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Limits of schemas.
const (
	maxSchema = 1 << 20 // bytes
	maxDepth  = 64      // levels of objects and lists in it
)

// object is a JSON object with its keys in order, which is the order in which replies have them.
type object struct {
	keys []string
	of   map[string]any
}

// readSchema reads a schema: objects, []any, string, json.Number, bool and nil. The second result is
// the same for package jsonschema.
func readSchema(text json.RawMessage) (any, *jsonschema.Compiler, error) {
	if len(text) > maxSchema {
		return nil, nil, fmt.Errorf("the schema has %d bytes; want at most %d", len(text), maxSchema)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	ordered, err := readValue(d, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("the schema cannot be read: text follows it")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nil) // a schema reads neither files nor URLs
	c.AssertFormat()
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { return regexp.Compile(fromECMA(pattern)) })
	if err := c.AddResource(schemaName, doc); err != nil {
		return nil, nil, invalid(ordered, err)
	}
	return ordered, c, nil
}

// schemaName is the name of the whole schema in package jsonschema.
const schemaName = "mem:schema"

// invalid returns the error of a schema that package jsonschema refuses, in one line with the place in the
// schema.
func invalid(root any, err error) error {
	if of := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &of) {
		if wrong, ok := of.Err.(*jsonschema.ValidationError); ok {
			at, problem := innermost(wrong)
			return refuse(at, "the schema is not valid: %s", problem)
		}
	}
	if bad := brokenRef(root, root, ""); bad != nil {
		return bad
	}
	if o, ok := root.(*object); ok && errors.As(err, new(*jsonschema.LoadURLError)) && o.of["$schema"] != nil {
		return refuse("/$schema", "%.200q is no draft of JSON Schema that is known here: leave it out", o.of["$schema"])
	}
	text := strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), schemaName+"#", "#")
	return fmt.Errorf("the schema is not valid: %.500s", text)
}

// innermost returns the first of the problems that are deepest in a schema, with its place: others only say that
// a part of theirs has it.
func innermost(e *jsonschema.ValidationError) (at, problem string) {
	if len(e.Causes) == 0 {
		for _, key := range e.InstanceLocation {
			at = below(at, key)
		}
		return at, e.BasicOutput().Error.String()
	}
	most := -1
	for _, cause := range e.Causes {
		place, text := innermost(cause)
		if n := strings.Count(place, "/"); n > most || n == most && place < at {
			at, problem, most = place, text, n
		}
	}
	return at, problem
}

// brokenRef returns the error of the first $ref that leads nowhere; nil if there is none.
func brokenRef(root, v any, at string) error {
	switch v := v.(type) {
	case *object:
		if ref, ok := v.of["$ref"].(string); ok {
			to, err := pointed(at, ref)
			if err != nil {
				return err
			}
			if _, ok := lookup(root, to); !ok {
				return refuse(below(at, "$ref"), "the schema has nothing at %.200q", ref)
			}
		}
		for _, key := range v.keys {
			if err := brokenRef(root, v.of[key], below(at, key)); err != nil {
				return err
			}
		}
	case []any:
		for i, x := range v {
			if err := brokenRef(root, x, below(at, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	}
	return nil
}

// pointed returns the place that a $ref at a place names.
func pointed(at, ref string) (string, error) {
	to, ok := strings.CutPrefix(ref, "#")
	to, err := url.PathUnescape(to)
	if !ok || err != nil || to != "" && to[0] != '/' {
		return "", refuse(below(at, "$ref"), "%.200q is not supported: copy what it names into $defs, and point there with #/$defs/name", ref)
	}
	return to, nil
}

func readValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := &object{of: map[string]any{}}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if _, twice := o.of[name]; twice {
				return nil, fmt.Errorf("the key %q is there twice", name[:min(len(name), 40)])
			}
			if o.of[name], err = readValue(d, depth+1); err != nil {
				return nil, err
			}
			if o.keys = append(o.keys, name); len(o.keys) > maxMembers {
				return nil, fmt.Errorf("an object in it has more than %d keys", maxMembers)
			}
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			x, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// pointer escapes a key for a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// below returns the JSON pointer of a key below another pointer.
func below(at, key string) string { return at + "/" + pointer.Replace(key) }

// lookup returns the value at a JSON pointer.
func lookup(root any, at string) (any, bool) {
	for _, part := range strings.Split(at, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := root.(type) {
		case *object:
			x, ok := v.of[part]
			if !ok {
				return nil, false
			}
			root = x
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			root = v[i]
		default:
			return nil, false
		}
	}
	return root, true
}

// plainOf returns a value as package jsonschema reads it.
func plainOf(v any) any {
	switch v := v.(type) {
	case *object:
		m := make(map[string]any, len(v.of))
		for key, x := range v.of {
			m[key] = plainOf(x)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = plainOf(x)
		}
		return list
	}
	return v
}
