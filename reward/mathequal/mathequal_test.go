package mathequal

import "testing"

func TestEqualComparesAnswers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		// numbers
		{"5", "5", true}, {"5", "5.0", true}, {"5.", "5", true}, {"05", "5", true}, {"+5", "5", true}, {"-5", "5", false}, {"−5", "-5", true},
		{"0.5", ".5", true}, {"1/2", "0.5", true}, {"2/4", "1/2", true}, {"1/3", "0.333", false}, {"1e3", "1000", true}, {"1E-3", "0.001", true},
		{"1.5e3", "1500", true}, {"1.5\\times 10^{3}", "1500", true}, {"1.5*10^3", "1500", true}, {"10^3", "1000", true},
		{"2 \\cdot 10^{-2}", "0.02", true},
		{"1,234", "1234", true}, {"1,234,567.5", "1234567.5", true}, {"1{,}234", "1234", true}, {"10,\\!000", "10000", true},
		{"10\\,000", "10000", true},
		{"1 000 000", "1000000", true}, {"12,34", "1234", false}, {"1,234", "1, 234", true}, {"0.1\\overline{6}", "1/6", true},
		{"0.\\overline{3}", "1/3", true},
		{"-0", "0", true}, {"1000000000000000000001", "1000000000000000000000", false}, {"0.1+0.2", "0.3", true},
		{"5", "6", false}, {"12", "1 2", false},
		{"1/2004!", "1/2006!", false}, {"1/2004!", "\\frac{1}{2004!}", true}, {"5!", "120", true}, {"\\binom{5}{2}", "10", true},
		{"2^{100}", "2^{101}", false},
		{"9999!", "9998!", false}, {"10^{100000}", "10^{100001}", false}, {"\\pi/2004!", "\\pi/2006!", false},
		{"1/0", "1/0", true}, {"1/0", "2/0", false},
		{"2^{-3}", "1/8", true}, {"(-2)^3", "-8", true}, {"-2^2", "-4", true}, {"6 \\div 4", "3/2", true}, {"|−3|", "3", true},
		{"\\lfloor 2.7 \\rfloor", "2", true},
		// fractions
		{"\\frac{1}{2}", "1/2", true}, {"\\dfrac{3}{4}", "0.75", true}, {"\\tfrac34", "3/4", true},
		{"\\frac12", "\\frac{1}{2}", true}, {"\\frac1{72}", "1/72", true},
		{"-\\frac{1}{2}", "\\frac{-1}{2}", true}, {"3\\frac{1}{2}", "7/2", true}, {"3 1/2", "3.5", true},
		{"-3 1/2", "-3.5", true}, {"3 \\frac12", "3.5", true},
		{"2\\frac{x}{3}", "\\frac{2x}{3}", true}, {"½", "0.5", true}, {"\\frac{\\frac{1}{2}}{3}", "1/6", true}, {"\\frac{1,000}{2}", "500", true},
		// roots, constants, functions
		{"\\sqrt{2}", "2^{1/2}", true}, {"\\sqrt2", "\\sqrt{2}", true}, {"\\sqrt{8}", "2\\sqrt{2}", true},
		{"\\frac{1}{\\sqrt{2}}", "\\frac{\\sqrt{2}}{2}", true},
		{"\\sqrt[3]{27}", "3", true}, {"\\sqrt[3]{-8}", "-2", true}, {"\\sqrt{2}", "1.414", false}, {"√16", "4", true}, {"sqrt(16)", "4", true},
		{"\\sqrt{2}", "10^8-10^8+1.414213", false}, {"\\sqrt{2}+10^8", "10^8+\\sqrt{2}", true}, // no tolerance for lost digits
		{"\\pi", "3.14", false}, {"2\\pi", "\\pi \\cdot 2", true}, {"2π", "2\\pi", true}, {"pi/2", "\\frac{\\pi}{2}", true},
		{"e^{i\\pi}", "-1", true},
		{"\\sin 30^\\circ", "1/2", true}, {"\\sin(\\pi/6)", "0.5", true}, {"\\cos\\pi", "-1", true}, {"\\ln e", "1", true},
		{"\\log_2 8", "3", true},
		{"\\log_{10} 1000", "3", true}, {"\\sin^2 x + \\cos^2 x", "1", true}, {"\\sin 2x", "2 \\sin x \\cos x", true},
		{"\\tan^{-1} 1", "\\pi/4", true},
		{"sin(x)^2", "\\sin^2 x", true}, {"(2+i)^2", "3+4i", true}, {"\\sqrt{-4}", "2i", true},
		{"1+\\sqrt{3}", "1-\\sqrt{3}", false}, {"\\exp(0)", "1", true},
		{"\\infty", "∞", true}, {"\\infty", "-\\infty", false}, {"+\\infty", "infinity", true},
		{"\\left|x\\right|", "\\sqrt{x^2}", true}, {"x", "\\sqrt{x^2}", false},
		// algebra
		{"x+1", "1+x", true}, {"2x", "2*x", true}, {"x^2-1", "(x-1)(x+1)", true}, {"(x+1)^2", "x^2+2x+1", true},
		{"(x+1)^2", "x^2+2x+2", false}, {"ab", "ba", true},
		{"\\frac{x^2-1}{x-1}", "x+1", true}, {"xy", "x", false}, {"2^{x+1}", "2 \\cdot 2^x", true}, {"x_1+x_2", "x_2+x_1", true},
		{"x_1", "x_2", false},
		{"\\alpha+\\beta", "\\beta + \\alpha", true}, {"x^{10}", "x^10", true}, {"-(x-y)", "y-x", true},
		{"n(n+1)/2", "\\frac{n^2+n}{2}", true}, {"A", "a", false},
		{"x^2", "x^3", false}, {"1/2x", "x/2", true}, {"(x)", "x", true}, {"{5}", "5", true},
		// equations, inequalities
		{"x=5", "5", true}, {"5", "x = 5", true}, {"x=5", "x=5.0", true}, {"x=5", "y=5", false}, {"x=5", "x=6", false},
		{"5=x", "5", true}, {"y=2x+1", "2x+1", true},
		{"2x+y=3", "y=3-2x", true}, {"2x+2y=6", "x+y=3", true}, {"x+y=3", "x+y=4", false}, {"f(x)=x^2", "x^2", true},
		{"2+3=5", "5", true}, {"2+3=6", "6", false},
		{"x>5", "5<x", true}, {"x \\ge 5", "x > 5", false}, {"x>5", "(5,\\infty)", true}, {"1<x\\le 2", "(1,2]", true},
		{"x \\in [1,2]", "[1,2]", true},
		{"x=1 \\text{ or } x=2", "1, 2", true}, {"x=1,2", "\\{2,1\\}", true}, {"x < -1", "(-\\infty, -1)", true}, {"x \\leq 3", "x <= 3", true},
		// tuples, sets, intervals, matrices
		{"(1,2)", "(1,2)", true}, {"(1, 2)", "$(1,2)$", true}, {"(1,2)", "(2,1)", false}, {"(1,2)", "[1,2]", false},
		{"(1,2)", "(1,2]", false}, {"(1,2)", "\\{1,2\\}", false},
		{"\\left(\\frac12, 3\\right)", "(0.5,3)", true}, {"\\{1,2\\}", "\\{2,1\\}", true}, {"1,2", "2, 1", true},
		{"1,2", "1,2,3", false}, {"1 and 2", "1,2", true},
		{"1, 2, and 3", "\\{3,2,1\\}", true}, {"\\{5\\}", "5", true}, {"\\emptyset", "\\{\\}", true},
		{"(-\\infty,1)\\cup(2,3)", "(2,3) \\cup (-\\infty, 1)", true},
		{"(1,234)", "1234", false}, {"(1,234)", "(1, 234)", true}, {"100,200,300", "100, 200, 300", true}, {"(1,2,3)", "(1,2)", false},
		{"\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\\\ \\end{bmatrix}", true},
		{"\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}", false}, {"[0,1)", "\\left[0,1\\right)", true},
		{"\\pm 2021", "2021", false}, {"\\pm 2021", "2021, -2021", true}, {"1\\pm\\sqrt{2}", "1-\\sqrt2, 1+\\sqrt2", true},
		{"x=\\pm 2", "\\pm 2", true}, {"12:00", "1:00", false},
		{"12:30", "12:30", true}, {"1:2", "1:3", false},
		// units, percent, currency, degree
		{"5 cm", "5", true}, {"5\\text{ cm}", "5 cm", true}, {"5 cm", "5 m", false}, {"5\\text{ cm}", "5\\text{ m}", false},
		{"5 cm^2", "5\\text{ cm}", false},
		{"5 square centimeters", "5 \\mathrm{cm}^2", true}, {"18 dollars", "$18", true}, {"\\$18", "18", true},
		{"$18.00", "18", true}, {"€18", "$18", false}, {"-$5", "-5", true},
		{"5 apples", "5", true}, {"5 apples", "6 apples", false}, {"5 apples", "5 oranges", false}, {"5 hours", "5 hr", true},
		{"60 km/h", "60", true},
		{"$12/hour", "12", true}, {"50%", "50", true}, {"50\\%", "0.5", true}, {"50", "0.5", false}, {"50%", "50 percent", true},
		{"50%", "5", false}, {"1/2", "50%", true},
		{"45^\\circ", "45", true}, {"45°", "45 degrees", true}, {"45^{\\circ}", "\\pi/4", true}, {"2516_8", "2516", true},
		{"2516_8", "2516_9", false}, {"2 m", "2", false},
		{"\\text{5 apples}", "5", true}, {"10 miles per hour", "10 mph", false},
		// letters and words
		{"A", "A", true}, {"A", "B", false}, {"(A)", "A", true}, {"\\text{A}", "A", true}, {"\\textbf{(B)}", "B", true},
		{"C.", "C", true}, {"Paris", "paris", true},
		{"\\text{Friday}", "Friday", true}, {"cat", "act", false}, {"Yes", "no", false},
		{"black and white", "Black and white", true}, {"Monday", "Tuesday", false},
		// nothing, rubbish
		{"", "", false}, {"", "5", false}, {"$$", "5", false}, {"\\frac{1}{", "1", false}, {"((((", "((((", true},
		{"5)", "5", false}, {"\\foo", "1", false}, {"1..2", "1.2", false},
		{"x=", "x", false}, {"\xff", "1", false}, {"三", "三", true}, {"三", "3", false}, {"5 !", "120", true},
	} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("Equal(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
		if got := Equal(c.b, c.a); got != c.want {
			t.Errorf("Equal(%q, %q) = %v, want %v (swapped)", c.b, c.a, got, c.want)
		}
	}
}

func TestAnswerFindsTheFinalAnswer(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{"<think>5</think><answer>6</answer>", "6"},
		{"<think>5</think>\n<answer> \\boxed{7} </answer>", "7"},
		{"<answer>1</answer> no, <answer>2</answer>", "2"},
		{"so \\boxed{1} or rather \\boxed{\\frac{1}{2}}.", `\frac{1}{2}`},
		{"\\boxed{\\{1,2\\}}", `\{1,2\}`},
		{"\\boxed{1} and \\boxed{2", "1"},
		{"\\fbox{3}", "3"},
		{"\\boxed 5 ok", "5"},
		{"steps\n#### 1,234\n", "1,234"},
		{"First 3, then the answer is 12. It took 4 steps.", "12"},
		{"The final answer is: $\\frac{1}{2}$.", `\frac{1}{2}`},
		{"**Answer:** x", "x"},
		{"Answer: 3.5", "3.5"},
		{"the answer is therefore 5 because", "5"},
		{"96 + 20 = 116", "96 + 20 = 116"},
		{"She sells 16 eggs and makes $18 every day.", "$18"},
		{"The change is -5 degrees today", "-5"},
		{"we get 10-3 of those", "3"},
		{"There are 3 ways.\n(1,2)", "(1,2)"},
		{"I choose\nA", "A"},
		{"Hence $x = \\frac{3}{4}$ holds.", `x = \frac{3}{4}`},
		{"Paris", "Paris"},
		{"<think>\\boxed{5}</think> I do not know", "I do not know"},
		{"", ""},
	} {
		if got := Answer(c.reply); got != c.want {
			t.Errorf("Answer(%q) = %q, want %q", c.reply, got, c.want)
		}
	}
}

func TestTruthDropsTheSolution(t *testing.T) {
	for solution, want := range map[string]string{
		"9 * 2 = 18\n#### 18": "18", "so \\boxed{5}": "5", " 7 ": "7", "x^2": "x^2", "2+2=4": "2+2=4",
	} {
		if got := Truth(solution); got != want {
			t.Errorf("Truth(%q) = %q, want %q", solution, got, want)
		}
	}
}
