package mathequal

import (
	"regexp"
	"strings"
)

// take reads an argument in braces.
func (u *undresser) take() (string, bool) {
	u.rest = strings.TrimLeft(u.rest, " ")
	if !strings.HasPrefix(u.rest, "{") {
		return "", false
	}
	inner, ok := group(u.rest)
	if ok {
		u.rest = u.rest[len(inner)+2:]
	}
	return inner, ok
}

var (
	// remark matches what stands above or below a value or a sign and says nothing about it.
	remark = regexp.MustCompile(`^\s*(?:[?!]?|[a-z]{2,}|\\(?:text|textrm|mathrm|textbf|mbox)\s*\{[^{}]*\})\s*$`)
	// related matches a sign of relation.
	related = regexp.MustCompile(`^\s*(?:[=<>≤≥→]|\\(?:to|approx|equiv|Rightarrow|rightarrow|implies|leq?|geq?|sim))\s*$`)
	// label matches the text at a brace.
	label = regexp.MustCompile(`^ *[_^] *(?:\{ *\\(?:text|textrm|mathrm|mbox)\s*\{[^{}]*\} *\}|` +
		`\\(?:text|textrm|mathrm|mbox)\s*\{[^{}]*\})`)
)

// stacked reads \overset{above}{base} and the like. A remark above or below leaves the base as it is, and a
// dot above a digit makes it recur. Any other sign may change what the base means.
func (u *undresser) stacked(name string) {
	all := u.rest
	above, _ := u.take()
	base, ok := u.take()
	dot := strings.TrimSpace(above)
	switch {
	case ok && (remark.MatchString(above) || related.MatchString(base)):
		u.rest = "{" + base + "}" + u.rest
		u.content(false)
	case ok && len(base) == 1 && isDigit(base, 0) && (dot == "." || dot == `\cdot` || dot == `\bullet`):
		u.put(`\dot{` + base + "}")
	default:
		u.rest = all
		u.out = append(u.out, `\`+name...)
		u.named = len(u.out)
	}
}

// unlabel removes the text at a brace, as in \underbrace{17}_{\text{total}}.
func (u *undresser) unlabel() {
	if inner, ok := group(u.rest); ok && strings.HasPrefix(u.rest, "{") {
		n := len(inner) + 2
		u.rest = u.rest[:n] + u.rest[n+len(label.FindString(u.rest[n:])):]
	}
}

// metric matches a prefix of a unit.
var metric = regexp.MustCompile(`\\(kilo|centi|milli|deci|micro|nano|mega)\\`)

// measured reads \SI{17}{cm}, or \si{cm} without the number, where the unit may be of commands.
func (u *undresser) measured(hasNumber bool) {
	if value, ok := u.take(); ok && hasNumber {
		u.put(value + " ")
	} else if ok {
		u.rest = "{" + value + "}" + u.rest
	}
	if unit, ok := u.take(); ok {
		unit = metric.ReplaceAllString(unit, ` $1`)
		u.put(`\text{` + strings.TrimSpace(strings.ReplaceAll(unit, `\`, " ")) + "}")
	}
}
