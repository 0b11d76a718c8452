package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// resolver evaluates `${name:arguments}`.
func (in *interpolator) resolver(p part, key string) (*yaml.Node, error) {
	switch p.name {
	case "oc.env":
		return in.env(p, key)
	case "oc.decode":
		return in.decodeText(p, key)
	case "oc.select":
		return in.selectKey(p, key)
	}
	return nil, fmt.Errorf("${%s:…} is not a known resolver; known: oc.env, oc.decode, oc.select", p.name)
}

// env evaluates `${oc.env:NAME}` and `${oc.env:NAME,default}`.
func (in *interpolator) env(p part, key string) (*yaml.Node, error) {
	if len(p.args) < 1 || len(p.args) > 2 {
		return nil, fmt.Errorf("oc.env takes a variable and perhaps a default, got %d arguments", len(p.args))
	}
	name, err := in.value(p.args[0], key)
	if err != nil {
		return nil, err
	}
	if v, ok := in.source.opts.Env(text(name)); ok {
		return typedNode(v), nil
	}
	if len(p.args) == 2 {
		return in.argument(p.args[1], key)
	}
	return nil, fmt.Errorf("the environment variable %s is not set; set it, or give a default: ${oc.env:%s,default}", text(name), text(name))
}

// decodeText evaluates `${oc.decode:text}`: it reads the text as a number, boolean, null, list or
// mapping.
func (in *interpolator) decodeText(p part, key string) (*yaml.Node, error) {
	if len(p.args) != 1 {
		return nil, fmt.Errorf("oc.decode takes one argument, got %d", len(p.args))
	}
	n, err := in.argument(p.args[0], key)
	if err != nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return n, err
	}
	var doc yaml.Node
	if err := yaml.Load([]byte(n.Value), &doc); err != nil || len(doc.Content) != 1 {
		return stringNode(n.Value), nil
	}
	tree, errs := in.source.expand(doc.Content[0])
	if len(errs) > 0 {
		return nil, fmt.Errorf("oc.decode: %s", errs[0].Message)
	}
	return in.copy(tree)
}

// selectKey evaluates `${oc.select:key,default}`, a reference to a key that may be missing.
func (in *interpolator) selectKey(p part, key string) (*yaml.Node, error) {
	if len(p.args) < 1 || len(p.args) > 2 {
		return nil, fmt.Errorf("oc.select takes a key and perhaps a default, got %d arguments", len(p.args))
	}
	ref, err := in.value(p.args[0], key)
	if err != nil {
		return nil, err
	}
	n, err := in.reference(text(ref), key)
	if err == nil && n.ShortTag() != "!!null" {
		return n, nil
	}
	if len(p.args) == 2 {
		return in.argument(p.args[1], key)
	}
	return typedNode(""), nil
}

// argument evaluates an argument. Plain text gets the type that YAML gives it; quoted text stays
// text.
func (in *interpolator) argument(parts []part, key string) (*yaml.Node, error) {
	if len(parts) == 0 {
		return stringNode(""), nil
	}
	if len(parts) == 1 && parts[0].kind == literalPart && !parts[0].quoted {
		return typedNode(parts[0].text), nil
	}
	return in.value(parts, key)
}
