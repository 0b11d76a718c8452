"""Records pairs of answers that are equal, in right.tsv, and pairs that are not, in wrong.tsv.

    pip install sympy==1.14.0 'math-verify==0.9.0' antlr4-python3-runtime==4.13.2
    python3 reward/mathequal/testdata/notation.py

Each pair is two ways to write two objects. sympy says whether the objects are equal; letters are
positive numbers for it. right.tsv also holds what math-verify says: kind, gold, answer, verdict.
The pairs follow from the seed alone.
"""

import logging
import os
import random
import re

import sympy as sp
from math_verify import parse, verify

HERE = os.path.dirname(os.path.abspath(__file__))
rng = random.Random(34)
right, wrong = {}, {}
logging.disable(logging.CRITICAL)


def different(a, b):
    """Whether two objects of sympy are different beyond doubt."""
    if isinstance(a, sp.Set) and isinstance(b, sp.Set):
        return sp.SymmetricDifference(a, b).doit() != sp.EmptySet and a != b
    if isinstance(a, tuple) or isinstance(b, tuple):
        return len(a) != len(b) or any(different(x, y) for x, y in zip(a, b, strict=True))
    letters = sorted((a - b).free_symbols, key=str)
    for _ in range(5):
        values = {x: sp.Rational(rng.randint(11, 97), 20) for x in letters}
        if abs(sp.N((a - b).subs(values), 30)) > sp.Float("1e-9"):
            return True
    return False


def same(a, b):
    if isinstance(a, sp.Set):
        return a == b or sp.SymmetricDifference(a, b).doit() == sp.EmptySet
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return sp.simplify(a - b) == 0


DRESSES = """{0}|{0}|{0}|{0}|{0}|{0}\\,|\\,{0}|{0}\\;|\\:{0}\\ |\\quad {0}|{0}\\qquad|\\thinspace {0}|\\hspace{{2pt}}{0}|{0}\\!
\\bf {0}|\\large {0}|\\displaystyle {0}|\\color{{red}}{{{0}}}|\\color{{blue}}{0}|\\textcolor{{red}}{{{0}}}|\\underline{{{0}}}|\\boldsymbol{{{0}}}
\\bm{{{0}}}|{0} \\tag{{1}}|\\therefore {0}|\\Rightarrow {0}|`{0}`|\\colorbox{{yellow}}{{{0}}}|{{{0}}}|\\mathbf{{{0}}}|\\fbox{{{0}}}|\u200b{0}|{0}\ufeff
{{\\color{{red}}{0}}}|\\enspace {0}|\\medspace {0}|{0}~|{0}\\\\|**{0}**|\u202f{0}|{0}.|\\phantom{{0}}{0}|\\mathrm{{}}{0}|\\implies {0}"""
DRESSES = DRESSES.replace("\n", "|").split("|")


def dress(text):
    if rng.random() < 0.35:
        return text
    return rng.choice(DRESSES).format(text)


def boxed(text):
    return "\\boxed{" + dress(text) + "}"


def add(kind, value, forms, misses, wrap=boxed, rights=2, wrongs=3):
    """Pairs forms of a value with each other and with those of near misses: (value, forms)."""
    gold = rng.choice(forms)
    for form in rng.sample(forms, min(rights, len(forms))):
        right.setdefault((gold, wrap(form)), (kind, value, value))
    for _ in range(wrongs):
        miss, others = rng.choice(misses)
        if different(value, miss):
            wrong.setdefault((gold, wrap(rng.choice(others))), kind)


def wide(text):
    return "".join(chr(ord(c) + 0xFEE0) if c.isdigit() else c for c in text)


def recurring(q):
    """Forms of a fraction as a recurring decimal, none if the period is long or empty."""
    sign, q = ("-", -q) if q < 0 else ("", q)
    whole, rest = divmod(q.p, q.q)
    digits, seen = [], {}
    while rest and rest not in seen and len(digits) < 12:
        seen[rest] = len(digits)
        digits.append(str(rest * 10 // q.q))
        rest = rest * 10 % q.q
    if not rest or rest not in seen:
        return []
    start = seen[rest]
    lead, period = f"{sign}{whole}.{''.join(digits[:start])}", "".join(digits[start:])
    if len(period) > 6:
        return []
    ends = period if len(period) == 1 else None
    dots = f"\\dot{{{ends}}}" if ends else f"\\dot{{{period[0]}}}{period[1:-1]}\\dot{{{period[-1]}}}"
    return [f"{lead}\\overline{{{period}}}", f"{lead}({period})", lead + dots, f"{lead}\\bar{{{period}}}", lead + "".join(c + "\u0305" for c in period)]


def fraction(q):
    n, d = q.p, q.q
    sign, a = ("-", -n) if n < 0 else ("", n)
    forms = [f"{sign}\\frac{{{a}}}{{{d}}}", f"\\dfrac{{{n}}}{{{d}}}", f"{n}/{d}", f"{{{n}\\over {d}}}", f"{n} \\over {d}", f"{wide(str(n))}/{d}"]
    forms += [f"x={sign}\\frac{{{a}}}{{{d}}}", f"{n}\u2044{d}", f"\\frac{{\\textcolor{{red}}{{{n}}}}}{{{d}}}"]
    return forms + recurring(q)


def fractions():
    for _ in range(520):
        q = sp.Rational(rng.randint(1, 60), rng.choice([2, 3, 6, 7, 9, 11, 12, 13, 15, 27, 33, 37, 41, 99])) * rng.choice([1, 1, -1])
        if q.q == 1:
            continue
        near = [q + sp.Rational(1, q.q), sp.Rational(q.q, q.p), -q, sp.Rational(q.p, q.q + 1), q + 1, q / 10, q * 10]
        add("fraction", q, fraction(q), [(m, fraction(m)) for m in near if m.q != 1])


def integers():
    for _ in range(560):
        n = rng.choice([rng.randint(2, 99), rng.randint(100, 999), rng.randint(1000, 999999)]) * rng.choice([1, 1, 1, -1])

        def forms(n):
            out = [str(n), f"{n}.0", wide(str(n)), f"x={n}", f"\\text{{{n}}}", f"{n}\\,"]
            if n >= 1000:
                out += [f"{n:,}", f"{n:,}".replace(",", "\\,"), f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", "\u202f"), f"{n:,}".replace(",", "\\;")]
            if n > 9:
                out += [f"\\color{{red}}{{{str(n)[0]}}}{str(n)[1:]}"]
            return out

        near = {n + 1, n - 1, n * 10, -n, n + 10, int(str(abs(n))[::-1]), int(str(n) + "0"), int(str(abs(n))[:-1] or 7)} - {n}
        add("integer", sp.Integer(n), forms(n), [(sp.Integer(m), forms(m)) for m in sorted(near)])


def roots():
    for _ in range(330):
        k, r = rng.randint(2, 9), rng.choice([2, 3, 5, 6, 7, 10, 11, 13])

        def forms(k, r):
            square = f"{k}\\sqrt{{{r}}}", f"\\sqrt{{{k * k * r}}}", f"{k}\u221a{r}", f"{k}\\cdot{{{r}}}^{{1\\over 2}}", f"\\sqrt{{{r}}}\\cdot {k}"
            return k * sp.sqrt(r), [*square, f"{{{k * r}\\over\\sqrt{{{r}}}}}", f"\\root 2\\of{{{k * k * r}}}", f"\\sqrt{{{k}^2\\cdot{r}}}"]

        value, gold = forms(k, r)
        add("root", value, gold, [forms(k + 1, r), forms(k, r + 1), forms(r, k), forms(k, k * r), (-value, ["-" + f for f in gold[:3]])])
    for _ in range(120):
        n, r = rng.choice([(3, 2), (3, 4), (3, 5), (4, 2), (4, 3), (3, 9)])

        def forms(n, r, k):
            sign = {3: "\u221b", 4: "\u221c"}[n]
            power = f"{r}^{{1/{n}}}", f"\\sqrt[{n}]{{{r}}}", f"\\root {n}\\of{{{r}}}", f"{sign}{r}", {3: "\u00b3", 4: "\u2074"}[n] + f"\u221a{r}"
            return k * sp.root(r, n), [f"{k}\\cdot {p}" for p in power[:3]] if k > 1 else list(power)

        value, gold = forms(n, r, 1)
        add("root", value, gold, [forms(n, r + 1, 1), forms(7 - n, r, 1), forms(n, r, 2), (sp.sqrt(r), [f"\\sqrt{{{r}}}", f"\u221a{r}"])])


WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}


def digits(n, base):
    return (digits(n // base, base) if n >= base else "") + str(n % base)


def bases():
    """Of numbers in bases the base counts as well, because a question asks for it."""
    for _ in range(300):
        n, base = rng.randint(20, 900), rng.randint(2, 9)

        def forms(n, base):
            d = digits(n, base)
            named = [f"{d}_{{\\text{{{WORDS[base]}}}}}", f"{d}_{{({base})}}", f"({d})_{base}", f"{d}" + chr(0x2080 + base), f"{d}_{{\\text{{base }}{base}}}"]
            return (sp.Integer(int(d)), sp.Integer(base)), [f"{d}_{base}", f"{d}_{{{base}}}", f"{d}_{{{WORDS[base]}}}", *named]

        value, gold = forms(n, base)
        add("base", value, gold, [forms(n + 1, base), forms(n - 1, base), forms(n, base % 8 + 2), forms(n * base, base)])


def binomials():
    for _ in range(260):
        n = rng.randint(4, 12)
        k = rng.randint(2, n - 2)

        def forms(n, k):
            chosen = [f"\\binom{{{n}}}{{{k}}}", f"{{{n} \\choose {k}}}", f"{n} \\choose {k}", f"{{}}_{{{n}}}C_{{{k}}}", f"{{}}^{{{n}}}C_{{{k}}}", f"C_{{{n}}}^{{{k}}}"]
            return sp.binomial(n, k), [*chosen, f"\\dbinom{{{n}}}{{{k}}}", str(sp.binomial(n, k)), f"C({n},{k})", f"\\frac{{{n}!}}{{{k}!\\,{n - k}!}}"]

        value, gold = forms(n, k)
        near = [forms(n + 1, k), forms(n, k + 1), forms(n, k - 1), (value + 1, [str(value + 1)]), (sp.ff(n, k), [f"{{}}_{{{n}}}P_{{{k}}}"])]
        add("binomial", value, gold, near)


# Each line: forms of one expression of a, b, x, then near misses. A form is TeX ~ Python.
IDENTITIES = r"""
\sqrt{1/a} ~ sqrt(1/a) | \frac{1}{\sqrt{a}} ~ 1/sqrt(a) | \frac{\sqrt a}{a} ~ sqrt(a)/a | a^{-1/2} ~ a**(-h) : \sqrt{a} ~ sqrt(a) | \frac1a ~ 1/a | -\frac{1}{\sqrt{a}} ~ -1/sqrt(a)
\ln(ab) ~ log(a*b) | \ln a+\ln b ~ log(a)+log(b) | \ln{b}+\ln{a} ~ log(a)+log(b) : \ln a\ln b ~ log(a)*log(b) | \ln(a+b) ~ log(a+b) | \ln a-\ln b ~ log(a)-log(b)
\ln(x^3) ~ log(x**3) | 3\ln x ~ 3*log(x) | \ln x+2\ln x ~ 3*log(x) : (\ln x)^3 ~ log(x)**3 | \ln(3x) ~ log(3*x) | 2\ln x ~ 2*log(x)
\ln\frac{a}{b} ~ log(a/b) | \ln a-\ln b ~ log(a)-log(b) : \frac{\ln a}{\ln b} ~ log(a)/log(b) | \ln(a-b) ~ log(a-b+9) | \ln b-\ln a ~ log(b)-log(a)
\sqrt{\frac{a}{b}} ~ sqrt(a/b) | \frac{\sqrt a}{\sqrt b} ~ sqrt(a)/sqrt(b) | {\sqrt a\over\sqrt b} ~ sqrt(a/b) | \frac{\sqrt{ab}}{b} ~ sqrt(a*b)/b : \sqrt{\frac{b}{a}} ~ sqrt(b/a) | \frac{a}{b} ~ a/b | \frac{\sqrt{ab}}{a} ~ sqrt(a*b)/a
2\pi\sqrt{\frac{a}{b}} ~ 2*pi*sqrt(a/b) | \frac{2\pi\sqrt{ab}}{b} ~ 2*pi*sqrt(a*b)/b | 2\pi\frac{\sqrt a}{\sqrt b} ~ 2*pi*sqrt(a/b) : 2\pi\sqrt{\frac{b}{a}} ~ 2*pi*sqrt(b/a) | \pi\sqrt{\frac{a}{b}} ~ pi*sqrt(a/b) | \frac{2\pi\sqrt{ab}}{a} ~ 2*pi*sqrt(a*b)/a
\log_2(x^2) ~ 2*log(x,2) | 2\log_2 x ~ 2*log(x,2) | \log_2 x+\log_2 x ~ 2*log(x,2) : (\log_2 x)^2 ~ log(x,2)**2 | \log_2(2x) ~ log(2*x,2) | \log_4 x ~ log(x,4)
\sqrt{\frac{x^2+1}{x}} ~ sqrt((x**2+1)/x) | \frac{\sqrt{x^2+1}}{\sqrt{x}} ~ sqrt(x**2+1)/sqrt(x) | \sqrt{x+\frac1x} ~ sqrt(x+1/x) : \sqrt{x^2+1} ~ sqrt(x**2+1) | \sqrt{x+1} ~ sqrt(x+1) | \frac{\sqrt{x^2+1}}{x} ~ sqrt(x**2+1)/x
\sqrt{ab} ~ sqrt(a*b) | \sqrt a\sqrt b ~ sqrt(a)*sqrt(b) | (ab)^{1/2} ~ (a*b)**h | a^{1/2}b^{1/2} ~ a**h*b**h : \sqrt{a+b} ~ sqrt(a+b) | \sqrt a+\sqrt b ~ sqrt(a)+sqrt(b) | a\sqrt b ~ a*sqrt(b)
\sqrt{x^3} ~ sqrt(x**3) | x\sqrt{x} ~ x*sqrt(x) | x^{3/2} ~ x**(3*h) | x^{1.5} ~ x**(3*h) : x^{2/3} ~ x**(2*t) | \sqrt[3]{x^2} ~ x**(2*t) | x^3 ~ x**3 | x^2\sqrt x ~ x**2*sqrt(x)
x^{1/3} ~ x**t | \sqrt[3]{x} ~ x**t | \root 3\of{x} ~ x**t : \sqrt{x} ~ sqrt(x) | x^3 ~ x**3 | x^{2/3} ~ x**(2*t) | \frac{x}{3} ~ x/3
(a+b)^2 ~ (a+b)**2 | a^2+2ab+b^2 ~ a**2+2*a*b+b**2 | (b+a)(a+b) ~ (a+b)**2 : a^2+b^2 ~ a**2+b**2 | (a-b)^2 ~ (a-b)**2 | a^2+ab+b^2 ~ a**2+a*b+b**2
\frac1a+\frac1b ~ 1/a+1/b | \frac{a+b}{ab} ~ (a+b)/(a*b) | {a+b\over ab} ~ (a+b)/(a*b) : \frac{2}{a+b} ~ 2/(a+b) | \frac{ab}{a+b} ~ a*b/(a+b) | \frac{a-b}{ab} ~ (a-b)/(a*b)
e^{2x} ~ exp(2*x) | (e^x)^2 ~ exp(x)**2 | e^x\cdot e^x ~ exp(2*x) | \exp(2x) ~ exp(2*x) : 2e^x ~ 2*exp(x) | e^{x^2} ~ exp(x**2) | e^{x+2} ~ exp(x+2)
\frac{x^2-1}{x+1} ~ (x**2-1)/(x+1) | x-1 ~ x-1 | -1+x ~ x-1 : x+1 ~ x+1 | 1-x ~ 1-x | \frac{x^2+1}{x+1} ~ (x**2+1)/(x+1)
\sin(2x) ~ sin(2*x) | 2\sin x\cos x ~ 2*sin(x)*cos(x) | 2\cos x\sin x ~ sin(2*x) : 2\sin x ~ 2*sin(x) | \sin x\cos x ~ sin(x)*cos(x) | \cos(2x) ~ cos(2*x)
\sqrt{a^3b} ~ sqrt(a**3*b) | a\sqrt{ab} ~ a*sqrt(a*b) | a\sqrt a\sqrt b ~ a*sqrt(a*b) : a\sqrt b ~ a*sqrt(b) | a^3\sqrt b ~ a**3*sqrt(b) | \sqrt{ab} ~ sqrt(a*b)
\frac{1}{1-x}-1 ~ 1/(1-x)-1 | \frac{x}{1-x} ~ x/(1-x) | \frac{-x}{x-1} ~ x/(1-x) : \frac{x}{x-1} ~ x/(x-1) | \frac{1}{1-x} ~ 1/(1-x) | \frac{x}{1+x} ~ x/(1+x)
"""
a, b, x = sp.symbols("a b x", positive=True)
NAMES = ["abx", "mnt", "Lgy", "hkz", "pqr", "uvw", "PQT", "\u03b1\u03b2\u03b8"]


def renamed(text, names):
    """The text with other letters for a, b and x, but not in commands."""
    parts = re.split(r"(\\[A-Za-z]+ ?)", text)
    return "".join(p if p.startswith("\\") else p.translate(str.maketrans("abx", names)) for p in parts)


def identities():
    locals_ = {"a": a, "b": b, "x": x, "h": sp.Rational(1, 2), "t": sp.Rational(1, 3)}
    for line in IDENTITIES.strip().splitlines():
        good, bad = ([f.split(" ~ ") for f in part.split(" | ")] for part in line.split(" : "))
        good, bad = ([(f.strip(), sp.sympify(v, locals=locals_)) for f, v in side] for side in (good, bad))
        value = good[0][1]
        for form, v in good:
            if not same(v, value):
                raise SystemExit(f"{form} is not {value}")
        for names in NAMES:
            for _ in range(5):
                near = [(v, [renamed(m, names)]) for m, v in bad]
                add("identity", value, [renamed(f, names) for f, _ in good], near)


def polynomials():
    t = sp.symbols("t", positive=True)
    for _ in range(330):
        r, s, k = rng.randint(-9, 9), rng.randint(-9, 9), rng.randint(1, 5)

        def write(c2, c1, c0):
            text = (f"{c2}x^2" if c2 != 1 else "x^2") + (f"{c1:+}x" if c1 else "") + (f"{c0:+}" if c0 else "")
            return text

        def forms(r, s, k):
            def factor(r):
                return "x" if r == 0 else f"(x{-r:+})"

            value = sp.expand(k * (t - r) * (t - s))
            lead = str(k) if k != 1 else ""
            expanded = write(k, -k * (r + s), k * r * s)
            return value, [expanded, lead + factor(r) + factor(s), lead + factor(s) + factor(r), expanded.replace("x^2", "x\u00b2"), f"y={expanded}"]

        value, gold = forms(r, s, k)
        add("polynomial", value, gold, [forms(r + 1, s, k), forms(-r, s, k), forms(r, s, k + 1), forms(-r, -s, k), forms(r, s + 2, k)])


def number(v):
    return {sp.oo: "\\infty", -sp.oo: "-\\infty"}.get(v, str(v))


def interval(s, style):
    """An interval of sympy in a style."""
    low, high = number(s.start), number(s.end)
    if style == "french":
        return f"{']' if s.left_open else '['}{low},{high}{'[' if s.right_open else ']'}"
    left, right = "<" if s.left_open else "\\le ", "<" if s.right_open else "\\le "
    if style in ("chain", "builder", "bar"):
        chain = f"{low}{left}x{right}{high}"
        if s.start == -sp.oo:
            chain = f"x{right}{high}"
        elif s.end == sp.oo:
            chain = f"x{'>' if s.left_open else chr(92) + 'ge '}{low}"
        return {"chain": chain, "builder": f"\\{{x: {chain}\\}}", "bar": f"\\{{x\\in\\mathbb{{R}}\\mid {chain}\\}}"}[style]
    return f"{'(' if s.left_open else '['}{low},{high}{')' if s.right_open else ']'}"


def random_interval():
    low = rng.randint(-9, 6)
    high = low + rng.randint(1, 8)
    ends = rng.choice([(low, high), (low, high), (low, high), (-sp.oo, high), (low, sp.oo)])
    return sp.Interval(*ends, rng.random() < 0.5, rng.random() < 0.5)


def interval_misses(s):
    near = [sp.Interval(s.start, s.end, not s.left_open, s.right_open), sp.Interval(s.start, s.end, s.left_open, not s.right_open)]
    near += [sp.Interval(s.start + 1, s.end, s.left_open, s.right_open), sp.Interval(s.start, s.end + 1, s.left_open, s.right_open)]
    return [n for n in near if isinstance(n, sp.Interval)]


STYLES = ["plain", "french", "chain", "builder", "bar"]


def intervals():
    for _ in range(330):
        s = random_interval()
        near = [(m, [interval(m, style) for style in STYLES]) for m in interval_misses(s)]
        add("interval", s, [interval(s, style) for style in STYLES], near)
    for _ in range(330):
        p, q = random_interval(), random_interval()
        sign, join = rng.choice([("\\cup", sp.Union), ("\\cap", sp.Intersection), ("\\setminus", sp.Complement)])
        value = join(p, q)
        if not isinstance(value, sp.Interval):
            continue
        forms = [f"{interval(p, style)}{sign}{interval(q, style)}" for style in ("plain", "french")] + [interval(value, style) for style in STYLES]
        near = [(m, [interval(m, style) for style in STYLES]) for m in interval_misses(value)]
        add("set", value, forms, near)
    for _ in range(260):
        c, d = sorted(rng.sample(range(-9, 10), 2))

        def rays(c, d):
            value = sp.Union(sp.Interval.open(-sp.oo, c), sp.Interval.open(d, sp.oo))
            left, right = f"(-\\infty,{c})", f"({d},\\infty)"
            words = [f"x<{c} \\text{{ or }} x>{d}", f"x>{d} \\text{{ or }} x<{c}", f"x<{c},\\ x>{d}"] if c < d else [f"x<{c} \\text{{ or }} x>{d}"]
            return value, [f"{left}\\cup{right}", f"{right}\\cup{left}", f"]-\\infty,{c}[\\cup]{d},\\infty[", *words, f"\\mathbb{{R}}\\setminus[{c},{d}]"]

        value, gold = rays(c, d)
        one = (sp.Interval.open(-sp.oo, c), [f"(-\\infty,{c})", f"x<{c}"])
        add("set", value, gold, [rays(c, d + 1), rays(c - 1, d), one, (sp.Interval.open(c, d), [f"({c},{d})", f"{c}<x<{d}"]), (sp.S.Reals, ["\u211d"])])
    for _ in range(160):
        holes = sorted(rng.sample(range(-9, 10), rng.randint(1, 2)))

        def punctured(holes):
            value = sp.Complement(sp.S.Reals, sp.FiniteSet(*holes))
            listed = ",".join(map(str, holes))
            ends = ["-\\infty", *map(str, holes), "\\infty"]
            pieces = "\\cup".join(f"({low},{high})" for low, high in zip(ends, ends[1:], strict=False))
            forms = [pieces, f"\\mathbb{{R}}\\setminus\\{{{listed}\\}}", f"\\mathbb{{R}}-\\{{{listed}\\}}", f"\u211d\\backslash\\{{{listed}\\}}"]
            return value, forms + ([f"x\\ne {holes[0]}", f"\\{{x\\mid x\\neq {holes[0]}\\}}"] if len(holes) == 1 else [])

        value, gold = punctured(holes)
        near = [punctured([h + 1 for h in holes]), punctured([*holes, 11]), (sp.S.Reals, ["\\mathbb{R}", "\u211d", "(-\\infty,\\infty)"])]
        near += [(sp.FiniteSet(*holes), ["\\{" + ",".join(map(str, holes)) + "\\}"])]
        add("set", value, gold, near)


def finite():
    def listed(items):
        items = list(items)
        rng.shuffle(items)
        return "\\{" + ",".join(map(str, items)) + "\\}"

    for _ in range(420):
        p, q = set(rng.sample(range(1, 9), rng.randint(2, 4))), set(rng.sample(range(1, 9), rng.randint(2, 4)))
        sign, value = rng.choice([("\\cup", p | q), ("\\cap", p & q), ("\\setminus", p - q), ("-", p - q)])
        if len(value) < 2:
            continue
        low, high = min(value), max(value)
        forms = [f"{listed(p)}{sign}{listed(q)}", listed(value), ", ".join(map(str, value))]
        if value == set(range(low, high + 1)):
            forms.append(f"\\{{x\\in\\mathbb{{Z}}: {low}\\le x\\le {high}\\}}")
        near = [value | {high + 1}, value - {low}, p | q, p & q, {v + 1 for v in value}, value ^ {low, low + 20}]
        misses = [(sp.FiniteSet(*m), [listed(m)]) for m in near if len(m) > 1 and m != value]
        if misses:
            add("set", sp.FiniteSet(*value), forms, misses)


def letters():
    """Sets with names: sympy compares them as propositions."""
    names = "A B C".split()
    A, B, C = sp.symbols(names)
    laws = [
        (~(A | B), ["(A\\cup B)^c", "A^c\\cap B^c", "\\overline{A\\cup B}", "\\overline{A}\\cap\\overline{B}", "A'\\cap B'"]),
        (A & ~B, ["A\\setminus B", "A\\cap B^c", "A\\cap\\overline{B}"]),
        (A & (B | C), ["A\\cap(B\\cup C)", "(A\\cap B)\\cup(A\\cap C)"]),
        (A | (B & C), ["A\\cup(B\\cap C)", "(A\\cup B)\\cap(A\\cup C)"]),
        (A | B, ["A\\cup B", "B\\cup A"]),
        (A & B, ["A\\cap B", "B\\cap A"]),
        (~(A & B), ["(A\\cap B)^c", "A^c\\cup B^c"]),
        (~A & B, ["B\\setminus A", "A^c\\cap B"]),
    ]
    for law, forms in laws:
        others = [(o, f) for o, f in laws if o is not law]
        for _ in range(14):
            gold = rng.choice(forms)
            other, misses = rng.choice(others)
            if sp.satisfiable(sp.Xor(law, other)):
                wrong.setdefault((gold, boxed(rng.choice(misses))), "set")
            right.setdefault((gold, boxed(rng.choice([f for f in forms if f != gold]))), ("set", sp.Integer(0), sp.Integer(0)))


SENTENCES = """The solutions are ${0}$ {w} ${1}$.|So $x={0}$ {w} $x={1}$.|Hence \\(x={0}\\) {w} \\(x={1}\\).|The answer is ${0}$ {w} ${1}$.
Either $x={0}$ or $x={1}$.|\\boxed{{{0}}} {w} \\boxed{{{1}}}|$x=\\boxed{{{0}}}$ or $x=\\boxed{{{1}}}$|$\\boxed{{x={0}}}, \\boxed{{x={1}}}$
The roots are x = {0} {w} x = {1}.|\\boxed{{{0} \\text{{ {w} }} {1}}}|\\boxed{{x={0},\\,{1}}}|The answer is therefore {0} {w} {1}.|\\boxed{{\\{{{0},{1}\\}}}}
$x_1={0}$, $x_2={1}$|The final answers are **{0}** {w} **{1}**.|$${0}$$ {w} $${1}$$""".replace("\n", "|").split("|")


def several():
    for _ in range(700):
        p, q = rng.sample(range(-30, 31), 2)
        value = sp.FiniteSet(p, q)
        golds = [f"{p}, {q}", f"x={p} \\text{{ or }} x={q}", f"\\{{{q},{p}\\}}", f"x={q}, {p}"]
        gold, sentence = rng.choice(golds), rng.choice(SENTENCES)
        word = rng.choice(["and", "or"])
        other = rng.choice([-p, p + 1, q + 3])
        right.setdefault((gold, sentence.format(q, p, w=word)), ("several", value, value))
        if different(value, sp.FiniteSet(other, q)):
            wrong.setdefault((gold, sentence.format(other, q, w=word)), "several")
        for part in (p, q):  # a part of the solutions is not all of them, and neither is one answer of two
            wrong.setdefault((rng.choice([str(part), f"x={part}"]), sentence.format(p, q, w=word)), "several")
            wrong.setdefault((gold, rng.choice([f"So $x={part}$.", boxed(str(part)), f"The answer is {part}."])), "several")
    for _ in range(260):
        p, q = rng.sample(range(-30, 31), 2)
        gold = rng.choice([f"x={p}, y={q}", f"x={p} \\text{{ and }} y={q}"])
        for text in (f"So $y={q}$ and $x={p}$.", f"$\\boxed{{x={p}}}, \\boxed{{y={q}}}$"):
            right.setdefault((gold, text), ("several", (sp.Integer(p), sp.Integer(q)), (sp.Integer(p), sp.Integer(q))))
        for text in (f"So $x={q}$ and $y={p}$.", f"So $x={p}$.", f"$y={q}$", f"$\\boxed{{x={p}}}, \\boxed{{y={q + 1}}}$", f"\\boxed{{{q}, {p}}}"):
            wrong.setdefault((gold, text), "several")
        wrong.setdefault((str(q), f"So $x={p}$ and $y={q}$."), "several")


def tuples():
    for _ in range(300):
        values = [rng.randint(-20, 20) for _ in range(rng.randint(2, 3))]

        def forms(v):
            inner = ",".join(map(str, v))
            spaced = ",\\,".join(map(str, v))
            return tuple(map(sp.Integer, v)), [f"({inner})", f"\\left({spaced}\\right)", f"\uff08{wide(inner)}\uff09", f"(\\,{inner}\\,)"]

        value, gold = forms(values)
        misses = [forms(values[::-1]), forms([v + 1 for v in values]), forms([*values[:-1], values[-1] + 2]), forms([-v for v in values])]
        add("tuple", value, gold, misses)


for generate in [fractions, integers, roots, bases, binomials, identities, polynomials, intervals, finite, letters, several, tuples]:
    generate()


def said(gold, answer):
    texts = ["$" + t + "$" if "$" not in t and "\\(" not in t and "answer" not in t and "roots" not in t else t for t in (gold, answer)]
    return int(verify(parse(texts[0]), parse(texts[1])))


near = sorted(rng.sample(list(wrong.items()), 10_400), key=lambda k: k[1])
with open(os.path.join(HERE, "wrong.tsv"), "w", encoding="utf-8") as out:
    for (gold, answer), kind in near:
        out.write(f"{kind}\t{gold}\t{answer}\n")
kept = [(pair, what) for pair, what in right.items() if same(what[1], what[2])]
kept = sorted(rng.sample(kept, min(len(kept), 1500)), key=lambda k: k[1][0])
missed = 0
with open(os.path.join(HERE, "right.tsv"), "w", encoding="utf-8") as out:
    for (gold, answer), what in kept:
        verdict = said(gold, answer)
        missed += 1 - verdict
        out.write(f"{what[0]}\t{gold}\t{answer}\t{verdict}\n")
print(len(near), "wrong pairs;", len(kept), "right pairs, of which math-verify misses", missed)
