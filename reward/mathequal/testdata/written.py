"""Records pairs in the notations that models write answers in, right and wrong, in written.tsv.

    pip install sympy==1.14.0 'math-verify==0.9.0' antlr4-python3-runtime==4.13.2
    python3 reward/mathequal/testdata/written.py

Each line has a kind, 1 or 0 for whether sympy says that the two values are equal, the gold answer, the reply, and what
math-verify says. The pairs follow from the seed alone.
"""

import logging
import os
import random

import sympy as sp
from math_verify import parse, verify

HERE = os.path.dirname(os.path.abspath(__file__))
rng = random.Random(340)
rows = {}
logging.disable(logging.CRITICAL)

# Dressings of one value: environments, decorations, lengths, labels and names. ~ stands for the value.
DRESSES = r"""\begin{aligned}~\end{aligned}|\begin{aligned}x&=~\end{aligned}|\begin{align*}x &= ~\\\end{align*}|\begin{array}{c}~\end{array}
\begin{array}{rcl}x&=&~\end{array}|\begin{gathered}~\end{gathered}|\begin{gather*}x=~\end{gather*}|\begin{equation}~\end{equation}|\begin{split}x&=~\end{split}
\begin{array}{|c|}\hline ~\\\hline\end{array}|\begin{matrix}~\end{matrix}|\begin{aligned}[t]x&=0+~\\&=~\end{aligned}|\begin{eqnarray*}x&=&~\end{eqnarray*}
\overset{}{~}|\underset{}{~}|\stackrel{}{~}|\underset{\text{answer}}{~}|x\overset{!}{=}~|x\stackrel{\text{def}}{=}~|\underbrace{~}_{\text{total}}|\overbrace{~}^{\text{all}}
\hspace 2pt ~|~\hspace 2pt|\kern 1em ~|\hskip 3pt plus 1pt ~|\hspace*{1cm}~|\mkern3mu ~|\rule{0pt}{2ex}~|\num{~}|\enclose{circle}{~}|\shadowbox{~}
\text{Area}=~|\text{The total is }~|\angle A=~|\operatorname{lcm}(1,2)=~|\max f=~|P(X=1)=~|\sum_{i=1}^{3} a_i=~|\int_0^1 f(x)\,dx=~|\lim_{x\to0}f(x)=~|f(3)=~
a+b=~|\mathbb{E}[X]=~|x:=~|x\coloneqq ~|x {=} ~|\because ~|\longrightarrow ~|\textbf{(B)}\ ~|~^{}|\sim ~|\text{Ans. }~|\boxed{~}|x\approx ~"""
DRESSES = [d for line in DRESSES.splitlines() for d in line.split("|") if "~" in d or d.count("{") != d.count("}")]
DRESSES = [d for d in DRESSES if "|c" not in d and d.count("{") == d.count("}")] + [r"\begin{array}{|c|}\hline ~\\\hline\end{array}"]


def boxed(text):
    return "\\boxed{" + text + "}"


def add(kind, gold, value, forms, misses, most=3):
    """Adds forms of the value, and forms of other values, each in a dressing."""
    for form in rng.sample(forms, min(most, len(forms))):
        dress = rng.choice(DRESSES)
        if kind == "decimal" and dress.count("~") > 1:  # of two decimal commas one may separate
            continue
        rows.setdefault((gold, boxed(dress.replace("~", form))), (kind, 1))
        rows.setdefault((gold, boxed(form)), (kind, 1))
    for miss, others in misses:
        if miss != value:
            rows.setdefault((gold, boxed(rng.choice(DRESSES).replace("~", rng.choice(others)))), (kind, 0))
            rows.setdefault((gold, boxed(rng.choice(others))), (kind, 0))


def grouped(n):
    text = f"{n:,}"
    return [text.replace(",", s) for s in ("'", "\u2019", "_", "\\_", "{,}", "\\text{,}", "\\hspace 2pt ", "\\,")] + [text]


def integers():
    for _ in range(200):
        n = rng.choice([rng.randint(2, 99), rng.randint(1000, 999999), rng.randint(10**6, 10**8)])
        write = lambda m: [str(m), *(grouped(m) if m > 999 else [])]
        near = {n + 1, n - 1, n + 10, n * 10, n // 10 + 1, n * 1000, int(str(n)[::-1])}
        add("integer", str(n), n, write(n), [(m, write(m)) for m in rng.sample(sorted(near), 4)])


def decimals():
    for _ in range(170):
        digits = rng.randint(1, 2)
        q = sp.Rational(rng.randint(1, 99999), 10**digits)
        if q.q == 1:
            continue
        text = lambda q: f"{float(q):.{digits}f}"
        # a comma may be the decimal point in an answer
        write = lambda q: [text(q), text(q).replace(".", "{.}"), text(q).replace(".", "{,}"), text(q).replace(".", ","), text(q).replace(".", "\\text{.}")]
        near = [q + sp.Rational(1, 10**digits), q * 10, q / 10 if digits == 1 else q + 1, q + 10]
        near = [m for m in near if (m * 10**digits).q == 1]
        add("decimal", text(q), q, write(q), [(m, write(m)) for m in near])
        whole, part = text(q).split(".")
        if int(whole) != int(part):  # as a truth or between brackets, a comma separates
            rows.setdefault((f"{whole},{part}", boxed(text(q))), ("comma", 0))
            rows.setdefault((text(q), boxed(f"({whole},{part})")), ("comma", 0))
            rows.setdefault((text(q), boxed(f"\\{{{whole},{part}\\}}")), ("comma", 0))
            rows.setdefault((text(q), boxed(f"{whole}, {part}")), ("comma", 0))


def magnitudes():
    for _ in range(120):
        n, (word, power) = rng.randint(2, 90), rng.choice([("hundred", 2), ("thousand", 3), ("million", 6), ("billion", 9)])
        for m in (n, n + 1, n * 10):
            for sign in (f"{m}\\text{{ {word}}}", f"{m} {word}"):
                rows.setdefault((str(n * 10**power), boxed(sign)), ("magnitude", int(m == n)))
                rows.setdefault((f"{n * 10**power}\\text{{ dollars}}", boxed(sign)), ("magnitude", int(m == n)))
                rows.setdefault((f"{m}\\text{{ dollars}}", boxed(sign + "\\text{ dollars}")), ("magnitude", 0))


def roundings():
    for _ in range(160):
        r = rng.choice([2, 3, 5, 6, 7, 10])
        k = rng.randint(2, 9)
        value, digits = k * sp.sqrt(r), rng.randint(1, 3)
        near = sp.N(value, 12)
        text = f"{float(near):.{digits}f}"
        off = f"{float(near) + 3 * 10.0**-digits:.{digits}f}"
        if off.endswith("0"):  # a rounding to fewer digits
            continue
        exact = f"{k}\\sqrt{{{r}}}"
        rows.setdefault((exact, boxed(f"{exact}\\approx {text}")), ("rounding", 1))
        rows.setdefault((text, boxed(f"x={exact}\\approx {text}")), ("rounding", 1))
        rows.setdefault((exact, boxed(f"{exact}\\approx {off}")), ("rounding", 0))
        rows.setdefault((off, boxed(f"{exact}\\approx {off}")), ("rounding", 0))
        rows.setdefault((f"{k + 1}\\sqrt{{{r}}}", boxed(f"{exact}\\approx {text}")), ("rounding", 0))
        rows.setdefault((str(k), boxed(f"{k}\\approx {k + 1}")), ("rounding", 0))
        rows.setdefault((str(k + 1), boxed(f"{k}\\approx {k + 1}")), ("rounding", 0))


JOINS = [" or ", " and ", "\\text{ or }", "\\text{ and }", ", ", " U ", "\\cup ", "\\text{ oder }"]


def unions():
    def rays(c, d, left="(", right=")"):
        value = sp.Union(sp.Interval(-sp.oo, c, right_open=right == ")"), sp.Interval(d, sp.oo, left_open=left == "("))
        return value, [f"(-\\infty,{c}{right}{j}{left}{d},\\infty)" for j in JOINS]

    def pieces(a, b, c, d, left="(", right=")"):
        value = sp.Union(sp.Interval(a, b, left == "(", right == ")"), sp.Interval(c, d, left == "(", right == ")"))
        return value, [f"{left}{a},{b}{right}{j}{left}{c},{d}{right}" for j in JOINS]

    for _ in range(150):
        a, b, c, d = sorted(rng.sample(range(-12, 13), 4))
        if rng.random() < 0.5:
            value, forms = rays(b, c)
            others = [rays(b, c + 1), rays(b - 1, c), rays(b, c, "["), rays(b, c, "(", "]"), (sp.S.Reals, ["\\mathbb{R}"])]
        else:
            value, forms = pieces(a, b, c, d)
            others = [pieces(a, b, c, d + 1), pieces(a - 1, b, c, d), pieces(a, b, c, d, "[", "]"), (sp.Interval.open(a, d), [f"({a},{d})"])]
        gold = forms[6]
        for form in rng.sample(forms, 4):
            rows.setdefault((gold, boxed(form)), ("union", 1))
        for other, texts in others:
            if other != value:
                rows.setdefault((gold, boxed(rng.choice(texts))), ("union", 0))
        rows.setdefault((f"\\{{({a},{b}),({c},{d})\\}}", boxed(f"({a},{b})\\cup({c},{d})")), ("union", 0))
        rows.setdefault((f"({a},{b})\\cup({c},{d})", boxed(f"\\{{({a},{b}),({c},{d})\\}}")), ("union", 0))


SETS = {"R": sp.S.Reals, "Z": sp.S.Integers, "N": sp.S.Naturals0, "Q": sp.S.Rationals}
FONTS = ["\\mathbb{%s}", "\\mathbb %s", "\\mathbf{%s}", "\\mathbf %s", "\\mathrm{%s}", "\\boldsymbol{%s}", "\\textbf{%s}", "%s", "\\mathcal{%s}", "\\mathrm %s"]


def names():
    for of, gold_set in SETS.items():
        for other, other_set in SETS.items():
            for font in FONTS:
                rows.setdefault((f"\\mathbb{{{of}}}", boxed(font % other)), ("name of a set", int(gold_set == other_set)))
                hole = rng.randint(1, 9)
                gold = f"\\mathbb{{{of}}}\\setminus\\{{{hole}\\}}"
                rows.setdefault((gold, boxed(font % other + f"\\setminus\\{{{hole}\\}}")), ("name of a set", int(gold_set == other_set)))
                rows.setdefault((gold, boxed(font % of + f"\\setminus\\{{{hole + 1}\\}}")), ("name of a set", 0))


def systems():
    for _ in range(140):
        p, q = rng.sample(range(-20, 21), 2)
        forms = lambda p, q: [f"\\begin{{aligned}}x&={p}\\\\y&={q}\\end{{aligned}}", f"\\left\\{{\\begin{{array}}{{l}}x={p}\\\\y={q}\\end{{array}}\\right.",
                              f"\\begin{{align*}}x &= {p},\\\\ y &= {q}.\\end{{align*}}", f"\\begin{{cases}}x={p}\\\\y={q}\\end{{cases}}",
                              f"\\left\\{{\\begin{{matrix}}x={p}\\\\y={q}\\end{{matrix}}\\right.", f"\\begin{{gathered}}x={p}\\\\y={q}\\end{{gathered}}"]
        for gold in (f"({p},{q})", f"x={p}, y={q}"):
            for form in rng.sample(forms(p, q), 2):
                rows.setdefault((gold, boxed(form)), ("system", 1))
            for other in ((q, p), (p + 1, q), (p, -q - 1)):
                rows.setdefault((gold, boxed(rng.choice(forms(*other)))), ("system", 0))
        for part in (p, q):
            rows.setdefault((str(part), boxed(rng.choice(forms(p, q)))), ("system", 0))


for generate in [integers, decimals, magnitudes, roundings, unions, names, systems]:
    generate()


def said(gold, answer):
    return int(verify(parse("$" + gold + "$"), parse("$" + answer + "$")))


missed = 0
with open(os.path.join(HERE, "written.tsv"), "w", encoding="utf-8") as out:
    for (gold, answer), (kind, verdict) in rows.items():
        peer = said(gold, answer)
        missed += verdict and not peer
        out.write(f"{kind}\t{verdict}\t{gold}\t{answer}\t{peer}\n")
rights = sum(v for _, v in rows.values())
print(rights, "right pairs, of which math-verify misses", missed, "and", len(rows) - rights, "wrong pairs")
