package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/tags"
)

// decoder writes a tree into a Config that holds the defaults. It records where the file writes
// each key.
type decoder struct {
	source *source
	errs   Errors
}

// decode makes a configuration, which nothing has settled, from a tree. root is the tree of the file or of one
// stage.
func (s *source) decode(root *yaml.Node) (*Settled, Errors) {
	own := *s
	own.root, own.positions = root, map[string]Position{}
	decoded := &Settled{Config: Config{source: &own}}
	values := valueOf(&decoded.Config)
	setDefaults(values)
	d := &decoder{source: &own}
	d.mapping(root, values, "")
	return decoded, d.errs
}

func (d *decoder) fail(n *yaml.Node, key, message, hint string) {
	d.errs = append(d.errs, d.source.errorAt(n, key, message, hint))
}

// mapping decodes into a struct. A key that the struct does not have is an error.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, key, "wants keys below it, got "+describe(n), "")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		path := tags.Join(key, k.Value)
		f, ok := fieldOf(v.Type(), k.Value)
		if !ok {
			d.fail(k, path, "unknown key", unknownKeyHint(v.Type(), path))
			continue
		}
		if how := f.Tag.Get("auto"); how != "" {
			d.fail(k, path, "is computed and cannot be set", "it is "+how)
			continue
		}
		d.source.positions[path] = d.source.position(k)
		d.value(value, v.FieldByIndex(f.Index), path)
	}
}

// value decodes into any field. Null keeps the default.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		setDefaults(p.Elem())
		d.value(n, p.Elem(), key)
		v.Set(p)
	case reflect.Struct:
		d.mapping(n, v, key)
	case reflect.Map:
		d.table(n, v, key)
	case reflect.Slice:
		d.list(n, v, key)
	default:
		d.scalar(n, v, key)
	}
}

func (d *decoder) table(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, key, "wants a mapping of names to values, got "+describe(n), "")
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(k, v.MapIndex(k))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, path := n.Content[i].Value, tags.Join(key, n.Content[i].Value)
		d.source.positions[path] = d.source.position(n.Content[i])
		if wrong := wrongName(name); wrong != "" {
			d.fail(n.Content[i], key, wrong, "use a plain name")
			continue
		}
		if v.Type().Elem().Kind() == reflect.Interface {
			out.SetMapIndex(reflect.ValueOf(name), anyValue(d.free(n.Content[i+1], path)))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		setDefaults(item)
		d.value(n.Content[i+1], item, path)
		out.SetMapIndex(reflect.ValueOf(name), item)
	}
	v.Set(out)
}

func anyValue(x any) reflect.Value {
	v := reflect.New(reflect.TypeFor[any]()).Elem()
	if x != nil {
		v.Set(reflect.ValueOf(x))
	}
	return v
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, key string) {
	items := n.Content
	if n.Kind != yaml.SequenceNode {
		if v.Type() != reflect.TypeFor[Names]() || n.Kind != yaml.ScalarNode {
			d.fail(n, key, "wants a list, got "+describe(n), "write [a, b], or one item per line with - before it")
			return
		}
		items = []*yaml.Node{n}
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, c := range items {
		path := key
		if n.Kind == yaml.SequenceNode {
			path = tags.Join(key, strconv.Itoa(i))
			d.source.positions[path] = d.source.position(c)
		}
		setDefaults(out.Index(i))
		d.value(c, out.Index(i), path)
	}
	v.Set(out)
}

// maxCount is the largest whole number of a key that is no seed, so that products of two fit into 64
// bits.
const maxCount = math.MaxInt32

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, key, fmt.Sprintf("wants %s, got %s", typeName(v.Type()), describe(n)), "")
		return
	}
	text := strings.TrimSpace(n.Value)
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
		return
	case reflect.Bool:
		if b, ok := boolean(text); ok {
			v.SetBool(b)
			return
		}
	case reflect.Int:
		if i, ok := integer(text); ok {
			v.SetInt(i)
			if (i > maxCount || i < -maxCount) && !strings.HasSuffix(key, "seed") {
				d.fail(n, key, fmt.Sprintf("is %d, must be at most %d", i, maxCount), "")
				v.SetInt(1)
			}
			return
		}
	case reflect.Float64:
		if f, ok := number(text); ok {
			v.SetFloat(f)
			return
		}
	}
	d.fail(n, key, fmt.Sprintf("wants %s, got %s", typeName(v.Type()), describe(n)), numberHint(v.Kind(), text))
}

func numberHint(k reflect.Kind, text string) string {
	if f, ok := number(text); ok && k == reflect.Int && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return "write " + strconv.FormatInt(int64(f), 10)
	}
	return ""
}

// free decodes a value whose keys the schema does not know, such as the arguments of a plug-in.
func (d *decoder) free(n *yaml.Node, key string) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			path := tags.Join(key, n.Content[i].Value)
			d.source.positions[path] = d.source.position(n.Content[i])
			m[n.Content[i].Value] = d.free(n.Content[i+1], path)
		}
		return m
	case yaml.SequenceNode:
		l := make([]any, len(n.Content))
		for i, c := range n.Content {
			path := tags.Join(key, strconv.Itoa(i))
			d.source.positions[path] = d.source.position(c)
			l[i] = d.free(c, path)
		}
		return l
	}
	return freeScalar(n)
}

func freeScalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		if b, ok := boolean(n.Value); ok {
			return b
		}
	case "!!int":
		if i, ok := integer(n.Value); ok {
			return int(i)
		}
	case "!!float":
		if f, ok := number(n.Value); ok {
			return f
		}
	}
	return n.Value
}

func boolean(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "y", "1":
		return true, true
	case "false", "no", "off", "n", "0":
		return false, true
	}
	return false, false
}

func integer(s string) (int64, bool) {
	i, err := strconv.ParseInt(strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+"), 0, 64)
	return i, err == nil
}

func number(s string) (float64, bool) {
	switch strings.ToLower(strings.TrimPrefix(s, "+")) {
	case ".inf":
		return math.Inf(1), true
	case "-.inf":
		return math.Inf(-1), true
	case ".nan", "nan", "inf", "infinity", "-inf", "-infinity", "-nan":
		return 0, false
	}
	if f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64); err == nil {
		return f, true
	}
	i, ok := integer(s)
	return float64(i), ok
}

// describe names the kind or the text of a node, for an error.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return strconv.Quote(shorten(n.Value))
}

// typeName names the type that a field takes, for an error and for the reference.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	}
	return "a section"
}
