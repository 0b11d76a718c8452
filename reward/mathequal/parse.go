package mathequal

import "strings"

// maxDepth bounds nesting, maxItems the elements of a list.
const (
	maxDepth = 60
	maxItems = 40
)

// Binding powers of the Pratt parser (Pratt 1973). A juxtaposition binds like a product: 1/2x is
// (1/2)·x.
const (
	bindSum     = 10
	bindProduct = 20
	bindPower   = 40
	bindPostfix = 50
)

type parser struct {
	tokens []token
	pos    int
	depth  int
	bars   int // open absolute values
}

// parse reads all tokens as one expression, relation or list.
func parse(tokens []token) (*node, error) {
	p := &parser{tokens: append([]token(nil), tokens...)}
	items, err := p.list()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.tokens) {
		return nil, errNotMathematics
	}
	if len(items) == 1 {
		return items[0], nil
	}
	return &node{op: opSequence, text: "{}", args: items}, nil
}

func (p *parser) peek() token {
	if p.pos < len(p.tokens) {
		return p.tokens[p.pos]
	}
	return token{kind: mark}
}

// at reports whether the next token is the mark; the end is the mark "".
func (p *parser) at(text string) bool { t := p.peek(); return t.kind == mark && t.text == text }

func (p *parser) accept(text string) bool {
	if text != "" && p.at(text) {
		p.pos++
		return true
	}
	return false
}

// list reads items between commas or semicolons.
func (p *parser) list() ([]*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errNotMathematics
	}
	defer func() { p.depth-- }()
	var items []*node
	for {
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		if items = append(items, item); len(items) > maxItems {
			return nil, errNotMathematics
		}
		separated := false
		for p.accept(",") || p.accept(";") { // "1, 2, and 3"
			separated = true
		}
		if !separated {
			return items, nil
		}
	}
}

// item reads a relation or a union of intervals.
func (p *parser) item() (*node, error) {
	first, err := p.relation()
	if err != nil {
		return nil, err
	}
	parts := []*node{first}
	for p.accept("∪") {
		part, err := p.relation()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		return first, nil
	}
	return tree(opUnion, parts...), nil
}

func (p *parser) relation() (*node, error) {
	p.accept("=")
	first, err := p.quantity()
	if err != nil {
		return nil, err
	}
	n := tree(opRelation, first)
	for {
		t := p.peek()
		if t.kind != mark || t.text == "" || !strings.Contains("=<>≤≥≠:∈", t.text) {
			break
		}
		p.pos++
		next, err := p.quantity()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, next)
		n.text += t.text
	}
	switch {
	case n.text == "":
		return first, nil
	case n.text == "∈":
		return n.args[1], nil
	case strings.Trim(n.text, ":") == "":
		return &node{op: opSequence, text: "::", args: n.args}, nil
	case strings.ContainsAny(n.text, ":∈"):
		return nil, errNotMathematics
	}
	return n, nil
}

// quantity reads an expression with its unit.
func (p *parser) quantity() (*node, error) {
	unit := ""
	negative := p.at("-") && p.pos+1 < len(p.tokens) && isCurrency(p.tokens[p.pos+1])
	if negative {
		p.pos++
	}
	if isCurrency(p.peek()) {
		unit = p.peek().text
		p.pos++
	}
	value, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if negative {
		value = tree(opNeg, value)
	}
	if words := p.unit(); words != "" {
		unit = strings.TrimSpace(unit + " " + words)
	}
	switch unit {
	case "":
		return value, nil
	case "%":
		return tree(opPercent, value), nil
	case "°":
		return tree(opDegree, value), nil
	}
	return &node{op: opUnit, text: unit, args: []*node{value}}, nil
}

func isCurrency(t token) bool {
	return t.kind == mark && t.text != "" && strings.Contains(currencies, t.text)
}

// unit reads words such as "square cm", "cm^2" or "km/h" as words in one spelling, joined by
// spaces.
func (p *parser) unit() string {
	var words []string
	square := ""
	for {
		t := p.peek()
		switch {
		case t.kind == word:
			p.pos++
			switch lower := strings.ToLower(t.text); lower {
			case "square", "sq":
				square = "^2"
			case "cubic":
				square = "^3"
			case "per", "of", "the", "a", "an":
			default:
				words = append(words, unitName(t.text)+square)
				square = ""
			}
		case isCurrency(t):
			p.pos++
			words = append(words, t.text)
		case t.kind == mark && t.text == "/" && (len(words) > 0 || p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].kind == word):
			p.pos++
		case t.kind == mark && t.text == "^" && len(words) > 0:
			p.pos++
			braced := p.accept("{")
			if t := p.peek(); t.kind == number {
				words[len(words)-1] += "^" + t.text
				p.pos++
			}
			if braced {
				p.accept("}")
			}
		default:
			return strings.Join(words, " ")
		}
	}
}
