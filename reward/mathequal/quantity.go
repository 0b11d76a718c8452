package mathequal

import "strings"

// quantity reads an expression with its unit.
func (p *parser) quantity() (*node, error) {
	unit := ""
	negative := p.at("-") && p.pos+1 < len(p.tokens) && isCurrency(p.tokens[p.pos+1])
	if negative {
		p.pos++
	}
	if t := p.peek(); isCurrency(t) || t.kind == word && currencyWords[strings.ToLower(t.text)] {
		unit = unitName(t.text)
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

// unit reads words such as "square cm", "cm^2", "km/h" or "(base two)" as words in one spelling, joined
// by spaces.
func (p *parser) unit() string {
	var words []string
	square, opened := "", 0
	for {
		t := p.peek()
		behind := token{kind: mark}
		if p.pos+1 < len(p.tokens) {
			behind = p.tokens[p.pos+1]
		}
		switch {
		case t.kind == word:
			p.pos++
			switch lower := strings.ToLower(t.text); lower {
			case "square", "sq":
				square = "^2"
			case "cubic":
				square = "^3"
			case "squared", "cubed":
				if len(words) == 0 { // of a letter that is read as a variable: 5 m squared
					words = append(words, "")
				}
				words[len(words)-1] += map[string]string{"squared": "^2", "cubed": "^3"}[lower]
			case "per", "of", "the", "a", "an":
			case "base":
				words = append(words, p.baseUnit())
			default:
				words = append(words, unitName(t.text)+square)
				square = ""
			}
		case isCurrency(t):
			p.pos++
			words = append(words, t.text)
		case t.kind == mark && t.text == "(" && behind.kind == word && len(behind.text) > 1:
			p.pos++
			opened++
		case opened > 0 && p.accept(")"):
			opened--
		case t.kind == mark && t.text == "/" && (len(words) > 0 || behind.kind == word):
			p.pos++
		case t.kind == mark && t.text == "^" && len(words) > 0:
			p.pos++
			braced, sign := p.accept("{"), ""
			if p.accept("-") {
				sign = "-"
			}
			if t := p.peek(); t.kind == number {
				words[len(words)-1] += "^" + sign + t.text
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

// multiplied returns a value in millions, dozens and so on as the number that it is, with the rest of its
// unit.
func multiplied(n *node) (product *node, found bool) {
	if n.op != opUnit {
		return n, false
	}
	value, rest, currency := n.args[0], n.text, ""
	if first, more, _ := strings.Cut(rest, " "); strings.Contains(currencies, first) { // $5 million
		currency, rest = first, more
	}
	for {
		first, more, _ := strings.Cut(rest, " ")
		if magnitudes[first] == nil {
			break
		}
		value, rest, found = tree(opMul, value, magnitudes[first]), more, true
	}
	rest = strings.TrimSpace(currency + " " + rest)
	switch {
	case !found:
		return n, false
	case rest != "":
		value = &node{op: opUnit, text: rest, args: []*node{value}}
	}
	return value, true
}
