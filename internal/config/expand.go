package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/tags"
)

// maxNodes limits the number of values after aliases and interpolations are expanded, so that a few
// lines cannot grow without end.
const maxNodes = 50_000

// maxDepth limits the nesting of a configuration.
const maxDepth = 100

// expander copies a tree without aliases and merge keys.
type expander struct {
	source *source
	nodes  int
	open   map[*yaml.Node]bool // anchors being expanded
	errs   Errors
}

// expand returns the tree with copies in place of aliases, and with `<<` merged. It refuses
// duplicate keys.
func (s *source) expand(root *yaml.Node) (*yaml.Node, Errors) {
	e := &expander{source: s, open: map[*yaml.Node]bool{}}
	out := e.node(root, "", 0)
	return out, e.errs
}

func (e *expander) fail(n *yaml.Node, key, message string) *yaml.Node {
	e.errs = append(e.errs, e.source.errorAt(n, key, message, ""))
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line, Column: n.Column}
}

func (e *expander) node(n *yaml.Node, key string, depth int) *yaml.Node {
	if e.nodes++; e.nodes > maxNodes {
		if e.nodes == maxNodes+1 {
			return e.fail(n, key, fmt.Sprintf("the file has more than %d values after its aliases are expanded", maxNodes))
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line, Column: n.Column}
	}
	if depth > maxDepth {
		return e.fail(n, key, fmt.Sprintf("is nested deeper than %d levels", maxDepth))
	}
	switch n.Kind {
	case yaml.AliasNode:
		return e.alias(n, key, depth)
	case yaml.MappingNode:
		return e.mapping(n, key, depth)
	case yaml.SequenceNode:
		out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Style: n.Style, Line: n.Line, Column: n.Column}
		for i, c := range n.Content {
			out.Content = append(out.Content, e.node(c, tags.Join(key, fmt.Sprint(i)), depth+1))
		}
		return out
	default:
		out := *n
		out.Anchor, out.Alias, out.Content = "", nil, nil
		return &out
	}
}

func (e *expander) alias(n *yaml.Node, key string, depth int) *yaml.Node {
	if n.Alias == nil || e.open[n.Alias] {
		return e.fail(n, key, fmt.Sprintf("the alias *%s contains itself", n.Value))
	}
	e.open[n.Alias] = true
	defer delete(e.open, n.Alias)
	return e.node(n.Alias, key, depth+1)
}

func (e *expander) mapping(n *yaml.Node, key string, depth int) *yaml.Node {
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Style: n.Style, Line: n.Line, Column: n.Column}
	seen := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode && k.Alias != nil {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			e.fail(k, key, "a key must be plain text")
			continue
		}
		if k.ShortTag() == "!!merge" {
			merged = append(merged, v)
			continue
		}
		if line, dup := seen[k.Value]; dup {
			e.fail(k, tags.Join(key, k.Value), fmt.Sprintf("is written twice, first at line %d", line))
			continue
		}
		seen[k.Value] = k.Line
		name := *k
		name.Anchor = ""
		out.Content = append(out.Content, &name, e.node(v, tags.Join(key, k.Value), depth+1))
	}
	for _, m := range merged {
		e.merge(out, m, seen, key, depth)
	}
	return out
}

// merge adds the keys of a `<<` value that the mapping does not have.
func (e *expander) merge(out, from *yaml.Node, seen map[string]int, key string, depth int) {
	m := e.node(from, key, depth+1)
	sources := []*yaml.Node{m}
	if m.Kind == yaml.SequenceNode {
		sources = m.Content
	}
	for _, src := range sources {
		if src.Kind != yaml.MappingNode {
			e.fail(src, key, "`<<` takes a mapping or a list of mappings")
			continue
		}
		for i := 0; i+1 < len(src.Content); i += 2 {
			if k := src.Content[i]; seen[k.Value] == 0 {
				seen[k.Value] = k.Line
				out.Content = append(out.Content, k, src.Content[i+1])
			}
		}
	}
}

// child returns the value of a key of a mapping or an index of a sequence, nil if there is none.
func child(n *yaml.Node, segment string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == segment {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, ok := index(segment); ok && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

// index reads a list index, a number without sign.
func index(segment string) (int, bool) {
	if segment == "" || len(segment) > 6 {
		return 0, false
	}
	i := 0
	for _, r := range segment {
		if r < '0' || r > '9' {
			return 0, false
		}
		i = 10*i + int(r-'0')
	}
	return i, true
}

// clone copies a tree. If at is not nil, every node of the copy gets the position of at.
func clone(n *yaml.Node, at *yaml.Node) *yaml.Node {
	out := *n
	if at != nil {
		out.Line, out.Column = at.Line, at.Column
	}
	out.Content = nil
	for _, c := range n.Content {
		out.Content = append(out.Content, clone(c, at))
	}
	return &out
}
