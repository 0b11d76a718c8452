package mathequal

import "strings"

// fractions rewrites old TeX: {a \over b} is \frac{a}{b}, {n \choose k} is \binom{n}{k}, and \root n
// \of x is \sqrt[n]{x}. Without braces, a and b reach to the next sign that separates or relates.
func fractions(tokens []token) []token {
	old := false
	for _, t := range tokens {
		old = old || t.kind == mark && (t.text == "over" || t.text == "choose" || t.text == "of")
	}
	if !old {
		return tokens
	}
	f := oldTeX{}
	f.open(token{})
	for _, t := range tokens {
		top := &f.groups[len(f.groups)-1]
		switch {
		case t.kind == mark && (t.text == "over" || t.text == "choose") && top.bar < 0:
			top.bar, top.kind = len(f.out), t.text
		case t.kind == mark && t.text != "" && strings.Contains("({[", t.text) || t.text == `\{`:
			f.out = append(f.out, t)
			f.open(t)
		case t.kind == mark && t.text != "" && (strings.Contains(")}]", t.text) || t.text == `\}`) && len(f.groups) > 1:
			whole := top.brace == "{" && top.bar >= 0
			f.close()
			f.groups = f.groups[:len(f.groups)-1]
			if !whole {
				f.out = append(f.out, t)
			}
		case t.kind == mark && t.text != "" && strings.Contains(",;=≈<>≤≥≠∧∈andor", t.text) && top.brace != "{":
			f.close()
			f.out = append(f.out, t)
			top.start, top.bar = len(f.out), -1
		default:
			f.out = append(f.out, t)
		}
	}
	f.close()
	return f.out
}

// oldTeX rewrites groups of tokens.
type oldTeX struct {
	out    []token
	groups []texGroup
}

// texGroup is an open group: where it starts and where \over stands, −1 without.
type texGroup struct {
	start, bar  int
	kind, brace string
}

func (f *oldTeX) open(brace token) {
	f.groups = append(f.groups, texGroup{start: len(f.out), bar: -1, brace: brace.text})
}

// close rewrites the innermost group if it has an \over.
func (f *oldTeX) close() {
	g := f.groups[len(f.groups)-1]
	if g.bar < 0 {
		return
	}
	function := "frac"
	if g.kind == "choose" {
		function = "binom"
	}
	brace := func(text string) token { return token{kind: mark, text: text} }
	upper, lower := append([]token(nil), f.out[g.start:g.bar]...), append([]token(nil), f.out[g.bar:]...)
	if g.brace == "{" { // of the group itself
		g.start--
	}
	f.out = append(f.out[:g.start], token{kind: name, text: function}, brace("{"))
	f.out = append(append(f.out, upper...), brace("}"), brace("{"))
	f.out = append(append(f.out, lower...), brace("}"))
}
