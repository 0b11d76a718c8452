package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/tags"
)

// YAML returns the effective configuration: the file with defaults, inherited values and overrides
// filled in. Load can read it again, except that stars replace secrets, as in [Mask]. It leaves out
// keys that are empty or not set. A run with stages has one document per stage.
func (c *Config) YAML() (string, error) {
	return c.dump(func(s *Config) *yaml.Node { return encode(valueOf(s), "") })
}

// Differences returns the part of [Config.YAML] that the file or the command line sets to another
// value than the default.
func (c *Config) Differences() (string, error) { return c.dump((*Config).set) }

// Settings returns the values of [Config.Differences] by dotted key. It belongs to a run without
// stages, or to a stage.
func (c *Config) Settings() map[string]any {
	if n := c.set(); n != nil {
		return Flatten(plain(n))
	}
	return nil
}

// Flatten returns the leaves of a tree of map[string]any and []any by dotted key, such as
// stages.0.mode.
func Flatten(tree any) map[string]any {
	leaves := map[string]any{}
	var add func(prefix string, v any)
	add = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, item := range v {
				add(prefix+name+".", item)
			}
		case []any:
			for i, item := range v {
				add(fmt.Sprintf("%s%d.", prefix, i), item)
			}
		default:
			leaves[strings.TrimSuffix(prefix, ".")] = v
		}
	}
	add("", tree)
	return leaves
}

// set returns the tree of what is set to another value than the default.
func (c *Config) set() *yaml.Node {
	var usual Config
	setDefaults(reflect.ValueOf(&usual).Elem())
	n := c.source.differing(encode(reflect.ValueOf(c).Elem(), ""), encode(reflect.ValueOf(&usual).Elem(), ""), "")
	if n != nil && c.IsStage() { // the run's name with the stage's
		n.Content = pairsBut(n.Content, func(name string, _ *yaml.Node) bool { return name == "name" })
	}
	return n
}

// differing returns what is set below key in n and differs from usual; nil if nothing is.
func (s *source) differing(n, usual *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind == yaml.ScalarNode || n.Kind == yaml.SequenceNode && n.Style == yaml.FlowStyle {
		if n == nil || !s.IsSet(key) || usual != nil && reflect.DeepEqual(plain(n), plain(usual)) {
			return nil
		}
		return n
	}
	out := *n
	out.Content = nil
	if n.Kind == yaml.SequenceNode {
		for i, item := range n.Content {
			if left := s.differing(item, nil, fmt.Sprintf("%s.%d", key, i)); left != nil {
				out.Content = append(out.Content, left)
			}
		}
		return orNone(&out)
	}
	for pair := range slices.Chunk(n.Content, 2) {
		below := strings.TrimPrefix(key+"."+pair[0].Value, ".")
		var other *yaml.Node
		if usual != nil {
			other = child(usual, pair[0].Value)
		}
		if left := s.differing(pair[1], other, below); left != nil {
			out.Content = append(out.Content, pair[0], left)
		}
	}
	return orNone(&out)
}

// dump writes a tree of each stage, or of the run. The receiver may be a stage's configuration.
func (c *Config) dump(tree func(*Config) *yaml.Node) (string, error) {
	if len(c.Stages) == 0 {
		return dumpTree(tree(c))
	}
	all := ""
	for i, s := range c.settled {
		text, err := dumpTree(tree(&s.Config))
		if err != nil {
			return "", err
		}
		all += fmt.Sprintf("--- # stage %s\n%s", c.Stages[i].StageName, text)
	}
	return all, nil
}

func dumpTree(n *yaml.Node) (string, error) {
	if n == nil {
		return "", nil
	}
	out, err := yaml.Dump(n)
	return string(out), err
}

// withoutInfinity replaces numbers that JSON does not have by their spelling in YAML.
func withoutInfinity(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = withoutInfinity(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = withoutInfinity(inner)
		}
	case float64:
		switch {
		case math.IsInf(v, 1):
			return ".inf"
		case math.IsInf(v, -1):
			return "-.inf"
		case math.IsNaN(v):
			return ".nan"
		}
	}
	return v
}

// MarshalJSON encodes the effective configuration, as [Config.YAML] does. With stages, it is an
// object {"stages": [{"stage_name", "config"}]}.
func (c *Config) MarshalJSON() ([]byte, error) {
	if len(c.Stages) == 0 {
		return json.Marshal(withoutInfinity(plain(encode(reflect.ValueOf(c).Elem(), ""))))
	}
	type stage struct {
		Name   string `json:"stage_name"`
		Config any    `json:"config"`
	}
	stages := make([]stage, len(c.settled))
	for i, s := range c.settled {
		stages[i] = stage{c.Stages[i].StageName, withoutInfinity(plain(encode(valueOf(&s.Config), "")))}
	}
	return json.Marshal(map[string]any{"stages": stages})
}

// encode makes a tree from the value of a dotted key, in the order of the schema. It returns nil
// for a value that is empty or not set.
func encode(v reflect.Value, key string) *yaml.Node {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return encode(v.Elem(), key)
	case reflect.Struct:
		return encodeSection(v, key)
	case reflect.Map:
		return encodeTable(v, key)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
		for i := range v.Len() {
			item := encode(v.Index(i), key)
			if i > 0 && item != nil && safetext.HidesAfter(fmt.Sprint(v.Index(i-1)), fmt.Sprint(v.Index(i))) { // command: [x, --api-key, …]
				item = stringNode("***")
			}
			if item == nil {
				item = typedNode("")
			}
			if item.Kind == yaml.MappingNode {
				n.Style = 0
			}
			n.Content = append(n.Content, item)
		}
		return orNone(n)
	case reflect.String:
		if v.String() == "" {
			return nil
		}
	}
	if masked := Mask(key, v.Interface()); v.Kind() == reflect.String || masked != v.Interface() {
		v = reflect.ValueOf(Escape(fmt.Sprint(masked)))
	}
	var n yaml.Node
	if err := n.Dump(v.Interface()); err != nil {
		return stringNode(fmt.Sprint(v.Interface()))
	}
	return &n
}

var beforeInterpolation = regexp.MustCompile(`(\\*)\$\{`)

// Escape returns text that a configuration reads back as s, without taking `${` in it for an
// interpolation.
func Escape(s string) string { return beforeInterpolation.ReplaceAllString(s, `$1$1\$${`) }

func encodeSection(v reflect.Value, key string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, f := range tags.Fields(v.Type()) {
		if f.Tag.Get("auto") != "" {
			continue
		}
		name := f.Tag.Get("yaml")
		if value := encode(v.FieldByIndex(f.Index), tags.Join(key, name)); value != nil {
			n.Content = append(n.Content, stringKey(name), value)
		}
	}
	return orNone(n)
}

func encodeTable(v reflect.Value, key string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	for _, k := range keys {
		value := encode(v.MapIndex(k), tags.Join(key, k.String()))
		if value == nil {
			value = emptyOf(v.MapIndex(k))
		}
		n.Content = append(n.Content, stringKey(k.String()), value)
	}
	return orNone(n)
}

// emptyOf returns an empty value of a free dict, which differs from a missing value.
func emptyOf(v reflect.Value) *yaml.Node {
	if v.Kind() == reflect.Interface && !v.IsNil() {
		switch v.Elem().Kind() {
		case reflect.String:
			return stringNode("")
		case reflect.Map:
			return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
		case reflect.Slice:
			return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
		}
	}
	return typedNode("null")
}

func stringKey(name string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
	if typedNode(name).Tag != "!!str" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func orNone(n *yaml.Node) *yaml.Node {
	if len(n.Content) == 0 {
		return nil
	}
	return n
}
