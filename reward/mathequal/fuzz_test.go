package mathequal

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// FuzzParse checks that no text panics or exceeds the budgets, and that a text equals itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"\\frac{1}{2}", "(1,2]", "3 1/2", "\\sqrt[3]{x}", "50\\%", "1e9999", "9^{9^{9^9}}", "((((((", "\\{1,\\pm 2\\}",
		"2\\frac{2\\frac{2}{3}}{3}", "5 cm/s", "\\begin{pmatrix}1\\end{pmatrix}",
		"|||x|||", "1_2_3", "0.\\overline{9}", "x<1<2>3", "\\text{a \\text{b}}", "5000!!!!", "a=b=c", "12:30:45", "\\log_2^3 x",
		"\\textcolor{red}{\\bf 17}\\,", "{1\\over 2}", "0.\\dot1 2\\dot3", "0.1(6)", "³√8½", "１７x₁²", "{}_5C_2", "1A_{16}", "]3,5[\\cup\\{7\\}",
		"\\{x\\in\\mathbb{Z} \\mid |x|<3\\}", "\\mathbb{R}^+\\setminus(A\\cap B')^c", "x<1 or x>2", "$x=1$ or $x=2$", "\\boxed{1}, \\boxed{2}",
		"The roots are **-3** and **1**.", "\\begin{cases}x=1\\\\y=2\\end{cases}", "\\sqrt{a^2b}", "<sup>2</sup>", "\\hskip 3pt \\tag*{1}",
		"\\begin{aligned}[t]x&=1\\\\&=2\\end{aligned}", "\\left\\{\\begin{array}{l}x=1\\\\y=2\\end{array}\\right.", "0{,}5", "1'234",
		"\\angle A=5", "\\overset{!}{=}5", "\\underbrace{5}_{\\text{x}}", "\\sqrt 2\\approx 1.41", "(1,2) U (3,4)", "5 million",
		"\\SI{5}{\\centi\\meter}", "^1/_2",
	} {
		f.Add(s, "1")
		f.Add(s, s+"+0")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, r := range read(a) {
			if r.plain != "" && r.root == nil {
				continue
			}
			newComparer().equal(r.root, r.root)
		}
		// A comma may be the decimal point of an answer, and m + n = 5 its value, and not of a truth.
		if got, back := Equal(a, b), Equal(b, a); got != back && !strings.ContainsAny(a+b, ",=≈") {
			t.Errorf("Equal(%q, %q) = %v, swapped %v", a, b, got, back)
		}
		if clean(a) != "" && len(read(a)) > 0 && !Equal(a, a) {
			t.Errorf("%q does not equal itself", a)
		}
		Equal(Answer(a), Truth(b))
	})
}

// hostile are texts that would take long or much memory if the work were not bounded.
func hostile() []string {
	many := strings.Repeat
	var union, points, conditions strings.Builder
	for i := range 150 {
		fmt.Fprintf(&union, `(%d,%d)\cup`, 2*i, 2*i+1)
		fmt.Fprintf(&points, `\{%d\}\cup`, i)
		fmt.Fprintf(&conditions, `x<%d or `, i)
	}
	return []string{
		many("3\\frac{", 200), many("(", 1900), many("-", 1900), many("5000!+", 300) + "1", many("2^", 500) + "2", "9999999^{9999999}",
		"((((10!)!)!)!)!", many("\\sqrt{", 300), many("\\pm 1", 200),
		many("(1,", 600), "\\{" + many("x,", 600) + "1\\}", many("\\binom{5000}{2500}*", 90) + "1",
		many("9", 1_000_000), many("\\boxed{", 20_000), many("1e9999*", 200) + "1", many("(x+1)*", 300) + "x",
		// sets
		union.String() + "(-1,0)", points.String() + `\{-1\}`, conditions.String() + "x<-1",
		many(`\{`, 900), many(`\{x:`, 450), many(`\{x|`, 450),
		`\mathbb{Z}\cap(0,199)\cup\mathbb{N}\cup\mathbb{Q}\cup A\cup B\cup C\cup` + points.String()[:900] + `\{-1\}`,
		many(`(A\cup `, 58) + `B` + many(`)`, 58), many(`\overline{`, 58) + `A\cup B` + many(`}`, 58), `A` + many(`'`, 1900) + `\cup B`,
		`\{` + many(`(a,b,c),`, 39) + `1\}`, `\{` + many(`\sqrt{x+y},`, 39) + `1\}`, many(`\{1,`, 55) + many(`\}`, 55), many("]1,2[\\cup", 200),
		many(`\begin{aligned}`, 120), many(`\overset{}{`, 180), many(`\underbrace{`, 160), many("x=", 900), many("1{,}", 490), many("1'234", 390),
		many("million ", 240), "5" + many(" billion", 240), many("1 \\approx ", 180) + "1", many(`\begin{align}`, 20_000), many("A=", 20) + "5",
		// dressings and notation
		many(`\textcolor{red}{`, 120), many(`\color{`, 280), many(`{}`, 1000), many(`{`, 1000) + many(`}`, 1000), many(`\text{`, 330),
		many(`\tag{`, 390),
		many(`\hspace{`, 240), `\kern` + many(`-`, 1900), many(`\`, 1900), many(`\\[`, 600), many("**a** ", 330), many("<b>", 300) + "</b>",
		many("{1\\over", 240), many("{", 300) + many("1\\over 2}", 200), many("1\\over ", 250), "0." + many(`\dot3`, 390), "0." + many("3̅", 600),
		many("0.(3)+", 300) + "1", "0.(" + many("3", 1900) + ")", many("½", 1000), many("³√", 400), "x" + many("²", 900), many("{}_", 660),
		many("\ufeff", 600) + "1", many("١", 900), "5 " + many("(cm ", 400), "5 " + many("base ", 390),
		many("(a+b+c+d+f+g+h+k+l+m+n+o+p+q+r+s+t+u+v+w+x+y+z)*", 39) + "1", many("x<", 900) + "1", many("1<", 900) + "x",
		many(`x\ne 1, `, 200) + "1",
		// replies
		many(`\boxed{1},`, 20_000), many(`\boxed{1}\boxed{`, 10_000), many(`$x=1$, `, 20_000), many(`$`+many("x+", 900)+`1$ or `, 100),
		many("$", 200_000),
		many("the answer is ", 10_000), many("is ", 600) + "1, 2", "the answer is " + many("either ", 20_000) + "$5$",
	}
}

// The comparison gives up on texts that would take long or much memory. Its budgets bound the work: the
// test fails by the deadline of the whole run if one of them is missing.
func TestHostileTextsEndQuickly(*testing.T) {
	for _, s := range hostile() {
		Equal(s, s+"+0")
		Equal(`\{`+s+`\}`, `\{1,`+s+`\}`)
		Equal(Answer(s), "7")
		Equal(Answer("so $"+s+"$ and $"+s+"$."), s)
	}
}

// A verdict allocates no more than a bound, whatever the texts are.
func TestHostileTextsTakeLittleMemory(t *testing.T) {
	const most = 64 << 20
	for _, s := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Equal(s, s+"+0")
		Equal(Answer(s), "7")
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%.40q… of %d bytes allocates %d MiB in all, want at most %d", s, len(s), used>>20, most>>20)
		}
	}
}
