package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/tags"
)

// maxText limits the text to which interpolation expands one value, in bytes.
const maxText = 1 << 20

// interpolator replaces `${…}` in a tree. A reference may name a key whose value also has
// interpolations: the interpolator resolves that key first. A key that needs its own value is an
// error.
type interpolator struct {
	source *source
	done   map[*yaml.Node]bool
	open   map[*yaml.Node]bool
	depth  int
	nodes  int // grown by copies of mappings and lists
	bytes  int // grown by text
	errs   Errors
}

// interpolate resolves every value of the tree in place. A value that it cannot resolve becomes
// null.
func (s *source) interpolate() Errors {
	in := &interpolator{source: s, done: map[*yaml.Node]bool{}, open: map[*yaml.Node]bool{}}
	in.tree(s.root, "")
	return in.errs
}

func (in *interpolator) tree(n *yaml.Node, key string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			in.tree(n.Content[i+1], tags.Join(key, n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			in.tree(c, tags.Join(key, fmt.Sprint(i)))
		}
	case yaml.ScalarNode:
		if err := in.scalar(n, key); err != nil {
			in.errs = append(in.errs, in.source.errorAt(n, key, err.Error(), ""))
		}
	}
}

// scalar resolves one value, once.
func (in *interpolator) scalar(n *yaml.Node, key string) error {
	if in.open[n] {
		return errors.New("the interpolation needs its own value")
	}
	if in.done[n] || !strings.Contains(n.Value, "${") {
		return nil
	}
	in.open[n] = true
	defer delete(in.open, n)
	in.done[n] = true
	parts, err := parseInterpolation(n.Value)
	if err != nil {
		setNull(n)
		return err
	}
	value, err := in.value(parts, key)
	if err != nil {
		setNull(n)
		return err
	}
	line, column := n.Line, n.Column
	*n = *value
	n.Line, n.Column = line, column
	return nil
}

func setNull(n *yaml.Node) { n.Tag, n.Value, n.Style = "!!null", "", 0 }

// value evaluates a parsed text. A single interpolation keeps the type of the value that it names;
// inside text, everything becomes text.
func (in *interpolator) value(parts []part, key string) (*yaml.Node, error) {
	if len(parts) == 1 && parts[0].kind != literalPart {
		return in.part(parts[0], key)
	}
	var b strings.Builder
	for _, p := range parts {
		if p.kind == literalPart {
			b.WriteString(p.text)
			continue
		}
		n, err := in.part(p, key)
		if err != nil {
			return nil, err
		}
		if n.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("${%s} is a mapping or a list and cannot stand inside text", p.text)
		}
		b.WriteString(text(n))
	}
	if in.bytes += b.Len(); in.bytes > maxText {
		return nil, fmt.Errorf("interpolations grow beyond %d bytes", maxText)
	}
	return stringNode(b.String()), nil
}

// text returns a scalar as text; null is "null".
func text(n *yaml.Node) string {
	if n.ShortTag() == "!!null" {
		return "null"
	}
	return n.Value
}

func stringNode(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

func (in *interpolator) part(p part, key string) (*yaml.Node, error) {
	if in.depth++; in.depth > maxDepth {
		in.depth--
		return nil, fmt.Errorf("interpolations are nested deeper than %d levels", maxDepth)
	}
	defer func() { in.depth-- }()
	if p.kind == referencePart {
		path, err := in.value(p.args[0], key)
		if err != nil {
			return nil, err
		}
		return in.reference(text(path), key)
	}
	return in.resolver(p, key)
}

// reference returns a copy of the value of a dotted key. Leading dots make the key relative to the
// section of the value.
func (in *interpolator) reference(ref, key string) (*yaml.Node, error) {
	path, err := absolute(ref, key)
	if err != nil {
		return nil, err
	}
	at, here := in.source.root, ""
	for _, segment := range strings.Split(path, ".") {
		if at.Kind == yaml.ScalarNode {
			if err := in.scalar(at, here); err != nil {
				return nil, fmt.Errorf("${%s}: %w", ref, err)
			}
		}
		here = tags.Join(here, segment)
		if at = child(at, segment); at == nil {
			return in.unwritten(path)
		}
	}
	if err := in.scalars(at, here); err != nil {
		return nil, fmt.Errorf("${%s}: %w", ref, err)
	}
	return in.copy(at)
}

// scalars resolves everything below a node that a reference names, so that its copy is final.
func (in *interpolator) scalars(n *yaml.Node, key string) error {
	if n.Kind == yaml.ScalarNode {
		return in.scalar(n, key)
	}
	if in.open[n] {
		return errors.New("the interpolation needs its own value")
	}
	in.open[n] = true
	defer delete(in.open, n)
	for i, c := range n.Content {
		segment := fmt.Sprint(i)
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			segment = n.Content[i-1].Value
		}
		if err := in.scalars(c, tags.Join(key, segment)); err != nil {
			return err
		}
	}
	return nil
}

func (in *interpolator) copy(n *yaml.Node) (*yaml.Node, error) {
	if in.nodes > maxNodes {
		return nil, fmt.Errorf("interpolations make more than %d values", maxNodes)
	}
	out := clone(n, nil)
	in.mark(out)
	return out, nil
}

func (in *interpolator) mark(n *yaml.Node) {
	in.nodes++
	in.done[n] = true
	for _, c := range n.Content {
		in.mark(c)
	}
}

// unwritten returns the default of a key that the file leaves out.
func (in *interpolator) unwritten(path string) (*yaml.Node, error) {
	n, ok := defaultAt(path)
	if ok {
		return n, nil
	}
	if near := nearestKey(path); near != "" {
		return nil, fmt.Errorf("${%s} names no key; did you mean ${%s}?", path, near)
	}
	return nil, fmt.Errorf("${%s} names no key", path)
}

// absolute turns a reference with leading dots (one dot: the value's own section) and [i] indices
// into a dotted key from the root.
func absolute(ref, key string) (string, error) {
	path := strings.TrimLeft(ref, ".")
	up := len(ref) - len(path)
	path = strings.TrimPrefix(tags.Dotted(path), ".")
	if path == "" {
		return "", fmt.Errorf("${%s} names no key", ref)
	}
	if up == 0 {
		return path, nil
	}
	base := strings.Split(key, ".")
	if up > len(base) {
		return "", fmt.Errorf("${%s} goes above the root of the file", ref)
	}
	return strings.Join(append(base[:len(base)-up:len(base)-up], path), "."), nil
}
