package mathequal

import (
	"strings"
	"testing"
)

// FuzzParse checks that no text panics or exceeds the budgets, and that a text equals itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"\\frac{1}{2}", "(1,2]", "3 1/2", "\\sqrt[3]{x}", "50\\%", "1e9999", "9^{9^{9^9}}", "((((((", "\\{1,\\pm 2\\}",
		"2\\frac{2\\frac{2}{3}}{3}", "5 cm/s", "\\begin{pmatrix}1\\end{pmatrix}",
		"|||x|||", "1_2_3", "0.\\overline{9}", "x<1<2>3", "\\text{a \\text{b}}", "5000!!!!", "a=b=c", "12:30:45", "\\log_2^3 x",
	} {
		f.Add(s, "1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, r := range read(a) {
			if r.plain != "" && r.root == nil {
				continue
			}
			newComparer().equal(r.root, r.root)
		}
		if got, back := Equal(a, b), Equal(b, a); got != back {
			t.Errorf("Equal(%q, %q) = %v, swapped %v", a, b, got, back)
		}
		if clean(a) != "" && len(read(a)) > 0 && !Equal(a, a) {
			t.Errorf("%q does not equal itself", a)
		}
		Equal(Answer(a), Truth(b))
	})
}

// The comparison gives up on texts that would take long.
func TestHostileTextsEndQuickly(*testing.T) {
	for _, s := range []string{
		strings.Repeat("3\\frac{", 200), strings.Repeat("(", 1900), strings.Repeat("-", 1900), strings.Repeat("5000!+", 300) + "1",
		strings.Repeat("2^", 500) + "2", "9999999^{9999999}", "((((10!)!)!)!)!", strings.Repeat("\\sqrt{", 300), strings.Repeat("\\pm 1", 200),
		strings.Repeat("(1,", 600), "\\{" + strings.Repeat("x,", 600) + "1\\}", strings.Repeat("\\binom{5000}{2500}*", 90) + "1",
		strings.Repeat("9", 1_000_000),
		strings.Repeat("\\boxed{", 20_000), strings.Repeat("1e9999*", 200) + "1", strings.Repeat("(x+1)*", 300) + "x",
	} {
		Equal(s, s+"+0")
		Equal(Answer(s), "7")
	}
}
