package mathequal

import (
	"math/big"
	"regexp"
	"strings"
)

// recursInBrackets reports whether tokens begin with (digits) that follow a number with a point, as in 0.1(6), and no sign
// that makes them a factor.
func recursInBrackets(tokens []token, text string) bool {
	if !strings.Contains(text, ".") || len(tokens) < 3 {
		return false
	}
	open, period, closing := tokens[0], tokens[1], tokens[2]
	if open.text != "(" || open.spaced || period.kind != number || !isWhole(period.text) || closing.text != ")" {
		return false
	}
	if len(tokens) == 3 {
		return true
	}
	after := tokens[3]
	return after.kind == mark && !strings.Contains("^([{!", after.text)
}

// recurring reads the digits that recur after a number with a point: 0.1\overline{6} is 0.1 + 6/90,
// and 0.\dot{1}2\dot{3} is 123/999.
func (p *parser) recurring(text string, value *big.Rat) (*node, error) {
	_, decimals, hasPoint := strings.Cut(text, ".")
	if !hasPoint || !isWhole(decimals) {
		return nil, errNotMathematics
	}
	period, ok := p.period()
	if !ok {
		return nil, errNotMathematics
	}
	digits, _ := new(big.Int).SetString(period, 10)
	nines := new(big.Int).Sub(powerOfTen(len(period)), big.NewInt(1))
	tail := new(big.Rat).SetFrac(digits, nines.Mul(nines, powerOfTen(len(decimals))))
	return &node{op: opNumber, num: tail.Add(tail, value)}, nil
}

// period reads digits in brackets, under bars, or from one dot to another.
func (p *parser) period() (string, bool) {
	if p.accept("(") {
		p.pos += 2
		return p.tokens[p.pos-2].text, true
	}
	var digits strings.Builder
	bars, dots, open := 0, 0, false // open: digits without a dot came last
	for {
		switch t := p.peek(); {
		case dots == 0 && p.accept("overline"):
			bars++
		case bars == 0 && dots < 2 && p.accept("dot"):
			dots++
			open = false
		case dots == 1 && t.kind == number && !t.spaced && isWhole(t.text):
			p.pos++
			digits.WriteString(t.text)
			open = true
			continue
		default:
			return digits.String(), digits.Len() > 0 && !open
		}
		part, ok := p.digits()
		if !ok {
			return "", false
		}
		digits.WriteString(part)
	}
}

// digits reads {digits} or one digit.
func (p *parser) digits() (string, bool) {
	braced := p.accept("{")
	t := p.peek()
	if t.kind != number || !isWhole(t.text) {
		return "", false
	}
	if braced {
		p.pos++
		return t.text, p.accept("}")
	}
	if p.tokens[p.pos].text = t.text[1:]; t.text[1:] == "" {
		p.pos++
	}
	return t.text[:1], true
}

// bases are words for the base of a number.
var bases = map[string]string{
	"two": "2", "binary": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "octal": "8", "nine": "9",
	"ten": "10", "decimal": "10", "eleven": "11", "twelve": "12", "sixteen": "16", "hex": "16",
}

// based reads the base behind a number.
func (p *parser) based(n *node) (*node, error) {
	p.pos++
	base, err := p.subscript()
	return &node{op: opUnit, text: baseName(base), args: []*node{n}}, err
}

func baseName(text string) string {
	text = strings.ToLower(strings.TrimPrefix(strings.Trim(text, "()"), "base"))
	if digits, ok := bases[text]; ok {
		text = digits
	}
	return "base" + text
}

// baseUnit reads what follows the word base.
func (p *parser) baseUnit() string {
	t := p.peek()
	if t.kind != number && t.kind != word {
		return "base"
	}
	p.pos++
	return baseName(t.text)
}

var letteredNumeral = regexp.MustCompile(`^\(?(?:\\(?:text|mathrm)\{)?` +
	`([0-9A-Fa-f]*[A-Fa-f][0-9A-Fa-f]*)\}?\)?_\{?\(?(?:\\(?:text|mathrm)\{)?(1[1-6]|eleven|twelve|sixteen)\}?\)?\}?$`)

// lettered reads a number with letters for digits and its base, such as 1A_{16}. Its digits remain as they
// are written, as in every base.
func lettered(text string) (*node, bool) {
	if !strings.Contains(text, "_") {
		return nil, false
	}
	m := letteredNumeral.FindStringSubmatch(text)
	if m == nil || len(m[1]) < 2 { // a_{12} is a variable
		return nil, false
	}
	digits := &node{op: opSymbol, text: strings.ToUpper(m[1])}
	return &node{op: opUnit, text: baseName(m[2]), args: []*node{digits}}, true
}

// combinations reads {}_5C_2, ^5C_2 and {}_5P_2 after their first sign.
func (p *parser) combinations() (*node, error) {
	n, err := p.argument()
	if err != nil {
		return nil, err
	}
	letter := p.peek().text
	p.pos++
	if (letter != "C" && letter != "P") || !p.accept("_") {
		return nil, errNotMathematics
	}
	k, err := p.argument()
	if err != nil || letter == "C" {
		return call("binom", n, k), err
	}
	return tree(opDiv, tree(opFactorial, n), tree(opFactorial, tree(opSub, n, k))), nil
}

// choice reads what follows the C of C(5, 2), or of C_5^2 or C^2_5, where the greater number counts all
// things and the other those that are chosen.
func (p *parser) choice() (*node, bool) {
	if n, next, ok := wholeAt(p.tokens, p.pos+1, "("); ok {
		k, end, ok := wholeAt(p.tokens, next+1, ",")
		if !ok || end >= len(p.tokens) || p.tokens[end].text != ")" {
			return nil, false
		}
		p.pos = end + 1
		return call("binom", n, k), true
	}
	first, next, ok := wholeAt(p.tokens, p.pos+1, "_^")
	if !ok {
		return nil, false
	}
	second, end, ok := wholeAt(p.tokens, next+1, "_^")
	if !ok || p.tokens[p.pos].text == p.tokens[next].text {
		return nil, false
	}
	if first.num.Cmp(second.num) < 0 {
		first, second = second, first
	}
	p.pos = end
	return call("binom", first, second), true
}

// wholeAt returns the whole number at token i, in braces or not, behind one of the signs.
func wholeAt(tokens []token, i int, signs string) (n *node, next int, ok bool) {
	braced := false
	if i >= len(tokens) || tokens[i-1].kind != mark || !strings.Contains(signs, tokens[i-1].text) {
		return nil, 0, false
	}
	if braced = tokens[i].text == "{"; braced {
		i++
	}
	if i >= len(tokens) || tokens[i].kind != number || !isWhole(tokens[i].text) {
		return nil, 0, false
	}
	value, ok := decimal(tokens[i].text)
	if i++; braced {
		ok = ok && i < len(tokens) && tokens[i].text == "}"
		i++
	}
	return &node{op: opNumber, num: value}, i, ok
}

// accent reads what a bar, a dot, a hat, an arrow or a tilde stands over. With the accent, a variable
// is another variable.
func (p *parser) accent(name string) (*node, error) {
	arg, err := p.argument()
	if err == nil && arg.op == opSymbol {
		return &node{op: opSymbol, text: name + " " + arg.text}, nil
	}
	return call(name, arg), err
}

// prime makes another variable of a variable, and a complement of a set.
func (p *parser) prime(left *node) (*node, error) {
	switch {
	case left.op == opSymbol:
		return &node{op: opSymbol, text: left.text + "'"}, nil
	case isSet(left):
		return call("overline", left), nil
	}
	return nil, errNotMathematics
}

// outwardBrackets reads ]3,5[ as (3,5): a closing bracket where an operand begins, and an opening one
// behind an operand, exclude the bound. It reports whether there are any.
func outwardBrackets(tokens []token) ([]token, bool) {
	out := append([]token(nil), tokens...)
	found, operand := false, false
	for i, t := range out {
		if t.kind != mark {
			operand = t.kind != name
			continue
		}
		switch {
		case t.text == "]" && !operand:
			out[i].text, found = "(", true
		case t.text == "[" && operand:
			out[i].text, found = ")", true
		case t.text == "[":
		default:
			operand = t.text != "" && strings.Contains(")}]!%°'", t.text) || t.text == `\}`
		}
	}
	return out, found
}
