"""Records what math-verify says of pairs of answers, in pairs.tsv: kind, gold, answer, verdict.

    pip install 'math-verify[antlr4_13_2]==0.9.0'
    python3 reward/mathequal/testdata/record.py

A pair is an answer in one of its usual forms, and the same answer in another form or a near miss.
The pairs follow from the seed alone.
"""

import os
import random
from fractions import Fraction

from math_verify import parse, verify

HERE = os.path.dirname(os.path.abspath(__file__))
rng = random.Random(18)
pairs = {}  # (gold, answer): kind, in the order of generation


def add(kind, golds, answers):
    """Pairs a gold form with each answer. What is no plain number is set between dollar signs."""
    gold = rng.choice(golds)
    for answer in answers:
        pairs.setdefault((gold, answer), kind)


def tex(*texts):
    return ["$" + t + "$" for t in texts]


def some(k, of):
    return rng.sample(of, min(k, len(of)))


def near(n):
    """Whole numbers that are easily taken for n."""
    return [m for m in {n + 1, n - 1, n * 10, -n, n + 10, int(str(abs(n))[::-1])} if m != n]


def commas(n):
    return f"{n:,}"


def integers():
    for _ in range(60):
        n = rng.choice([rng.randint(-99, 99), rng.randint(100, 9999), rng.randint(10**4, 10**9)])
        forms = [str(n), f"${n}$", f"{n}.0", f"The answer is {n}.", f"$\\boxed{{{n}}}$", f"so we get $x = {n}$"]
        wrong = [str(m) for m in some(2, sorted(near(n)))]
        add("integer", [str(n), f"${n}$"], some(4, forms) + wrong)


def thousands():
    for _ in range(50):
        n = rng.choice([rng.randint(1000, 9999), rng.randint(10**4, 10**6), rng.randint(10**6, 10**10)])
        text = commas(n)
        forms = [
            text,
            f"${text}$",
            f"${text.replace(',', '{,}')}$",
            f"{text}.00",
            f"The answer is {text}",
            f"$\\boxed{{{text}}}$",
            str(n),
        ]
        wrong = [commas(m) for m in some(2, sorted(m for m in near(n) if m > 0))]
        add("thousands", [str(n), text, f"${text}$"], some(4, forms) + wrong)


def decimals():
    for _ in range(60):
        places = rng.randint(1, 5)
        n = rng.randint(1, 10 ** rng.randint(2, 6))
        value = n / 10**places
        text = f"{value:.{places}f}"
        forms = [text, f"${text}$", text + "0", f"The answer is {text}", f"$\\boxed{{{text}}}$"] + tex(f"\\frac{{{n}}}{{{10**places}}}")
        wrong = [f"{value * 10:.{places}f}", f"{(n + 1) / 10**places:.{places}f}", f"-{text}", str(n + 1)]
        add("decimal", [text, f"${text}$"], some(4, forms) + some(2, wrong))


def fractions():
    for _ in range(90):
        q = Fraction(rng.randint(-60, 60) or 7, rng.randint(2, 40))
        if q.denominator == 1:
            continue
        n, d = q.numerator, q.denominator
        sign, a = ("-" if n < 0 else ""), abs(n)
        forms = tex(
            f"\\frac{{{n}}}{{{d}}}",
            f"\\dfrac{{{n}}}{{{d}}}",
            f"{sign}\\frac{{{a}}}{{{d}}}",
            f"{n}/{d}",
            f"\\tfrac{{{n}}}{{{d}}}",
            f"\\frac{{{3 * n}}}{{{3 * d}}}",
            f"\\boxed{{\\frac{{{n}}}{{{d}}}}}",
            f"x=\\frac{{{n}}}{{{d}}}",
        )
        forms += [f"{n}/{d}", f"Hence $\\boxed{{\\dfrac{{{n}}}{{{d}}}}}$."]
        if a < 10 and d < 10:
            forms += tex(f"{sign}\\frac{a}{d}", f"{sign}\\frac {a}{d}")
        if d in (2, 4, 5, 8, 10, 16, 20, 25, 32, 40):
            forms += [str(float(q)), f"${float(q)}$"]
        wrong = tex(f"\\frac{{{d}}}{{{n}}}", f"\\frac{{{n + 1}}}{{{d}}}", f"\\frac{{{n}}}{{{d + 1}}}", f"{n}", f"\\frac{{{-n}}}{{{d}}}")
        add("fraction", forms[:2] + [f"{n}/{d}"], some(5, forms) + some(2, wrong))


def mixed():
    for _ in range(40):
        w, d = rng.randint(1, 20), rng.randint(2, 12)
        n = rng.randint(1, d - 1)
        sign = rng.choice(["", "", "-"])
        forms = tex(
            f"{sign}{w}\\frac{{{n}}}{{{d}}}",
            f"{sign}{w} \\frac{{{n}}}{{{d}}}",
            f"{sign}{w}\\dfrac{{{n}}}{{{d}}}",
            f"{sign}\\frac{{{w * d + n}}}{{{d}}}",
        )
        wrong = tex(f"{sign}\\frac{{{w * n}}}{{{d}}}", f"{sign}{w}\\frac{{{n}}}{{{d + 1}}}", f"{sign}{w + 1}\\frac{{{n}}}{{{d}}}")
        add("mixed number", forms, some(3, forms) + some(2, wrong))


def percentages():
    for _ in range(40):
        n = rng.choice([rng.randint(1, 100), rng.randint(1, 999) / 10])
        forms = tex(f"{n}\\%", f"{n}", f"{n}\\ \\%", f"\\boxed{{{n}\\%}}") + [f"{n}%", f"{n}", f"The answer is {n}%"]
        wrong = tex(f"{n + 1}\\%", f"{n * 10}\\%") + [f"{n + 2}%"]
        add("percentage", tex(f"{n}\\%") + [f"{n}%", f"{n}"], some(4, forms) + some(2, wrong))


def roots():
    for _ in range(60):
        k, r = rng.randint(2, 9), rng.choice([2, 3, 5, 6, 7, 10, 11, 13])
        square = k * k * r
        forms = tex(
            f"{k}\\sqrt{{{r}}}",
            f"\\sqrt{{{square}}}",
            f"{k} \\sqrt{{{r}}}",
            f"{k}\\cdot\\sqrt{{{r}}}",
            f"{k} \\cdot {r}^{{1/2}}",
            f"\\sqrt{{{r}}}\\cdot {k}",
            f"\\boxed{{{k}\\sqrt{{{r}}}}}",
            f"\\frac{{{k * r}}}{{\\sqrt{{{r}}}}}",
        )
        if r < 10:
            forms += tex(f"{k}\\sqrt{r}")
        wrong = tex(
            f"{r}\\sqrt{{{k}}}" if r != k else f"{k}\\sqrt{{{k + 1}}}",
            f"{k + 1}\\sqrt{{{r}}}",
            f"-{k}\\sqrt{{{r}}}",
            f"\\sqrt{{{square + 1}}}",
            f"{k}\\sqrt[3]{{{r}}}",
        )
        add("root", forms[:2], some(4, forms) + some(2, wrong))
    for _ in range(25):
        a, b = rng.randint(1, 9), rng.choice([2, 3, 5, 7])
        forms = tex(f"{a}+\\sqrt{{{b}}}", f"\\sqrt{{{b}}}+{a}", f"{a} + \\sqrt{{{b}}}", f"\\frac{{{2 * a}+2\\sqrt{{{b}}}}}{{2}}")
        wrong = tex(f"{a}-\\sqrt{{{b}}}", f"\\sqrt{{{a + b}}}", f"{a}\\sqrt{{{b}}}", f"{a + 1}+\\sqrt{{{b}}}")
        add("root", forms[:1], some(3, forms) + some(2, wrong))
    for _ in range(15):
        n, k = rng.randint(2, 6), rng.randint(3, 4)
        add(
            "root",
            [str(n)],
            tex(f"\\sqrt[{k}]{{{n**k}}}", f"\\sqrt{{{n * n}}}", f"\\sqrt[{k}]{{{n**k + 1}}}", f"\\sqrt[{k}]{{{(n + 1)**k}}}"),
        )


def powers():
    for _ in range(40):
        b, e = rng.randint(2, 9), rng.randint(2, 8)
        forms = tex(f"{b}^{{{e}}}", f"{b**e}", f"{b}^{e}", f"{b}\\cdot {b}^{{{e - 1}}}", f"{b}^{{{e - 1}}} \\times {b}") + [str(b**e)]
        wrong = tex(f"{b}^{{{e + 1}}}", f"{b + 1}^{{{e}}}", f"{b * e + 1}", f"{b}^{{-{e}}}")
        add("power", forms[:2], some(3, forms) + some(2, wrong))
    for _ in range(15):
        b, e = rng.randint(2, 9), rng.randint(2, 6)
        add(
            "power",
            tex(f"{b}^{{-{e}}}"),
            tex(f"\\frac{{1}}{{{b**e}}}", f"\\frac{{1}}{{{b}^{e}}}", f"\\frac{{1}}{{{b**e + 1}}}", f"-{b}^{{{e}}}"),
        )


def pis():
    for _ in range(50):
        n, d = rng.randint(1, 30), rng.choice([1, 2, 3, 4, 5, 6, 7])
        q = Fraction(n, d)
        n, d = q.numerator, q.denominator
        forms = tex(
            f"\\frac{{{n}\\pi}}{{{d}}}",
            f"\\frac{{{n}}}{{{d}}}\\pi",
            f"{n}\\pi/{d}",
            f"\\frac{{\\pi \\cdot {n}}}{{{d}}}",
            f"\\dfrac{{{n}}}{{{d}}} \\pi",
            f"\\boxed{{\\frac{{{n}\\pi}}{{{d}}}}}",
        )
        if d == 1:
            forms = tex(
                f"{n}\\pi", f"{n} \\pi", f"\\pi \\cdot {n}", f"{n} \\cdot \\pi", f"\\boxed{{{n}\\pi}}", f"\\frac{{{2 * n}\\pi}}{{2}}"
            )
        wrong = tex(f"{n + 1}\\pi/{d}", f"\\frac{{{n}}}{{{d}\\pi}}", f"\\frac{{{n}}}{{{d}}}", f"-\\frac{{{n}\\pi}}{{{d}}}")
        wrong += [f"{round(3.14 * n / d, 2)}"]
        add("pi", forms[:2], some(4, forms) + some(2, wrong))


def intervals():
    for _ in range(50):
        low, high = sorted(some(2, range(-20, 21)))
        o, c = rng.choice("(["), rng.choice(")]")
        low, high = (
            (rng.choice([str(low), "-\\infty"]), str(high)) if rng.random() < 0.5 else (str(low), rng.choice([str(high), "\\infty"]))
        )
        if low == "-\\infty":
            o = "("
        if high == "\\infty":
            c = ")"
        body = f"{o}{low},{high}{c}"
        forms = tex(body, f"{o}{low}, {high}{c}", f"\\left{o}{low},{high}\\right{c}", f"\\boxed{{{body}}}", f"x \\in {body}")
        wrong = []
        if high != "\\infty":
            wrong += tex(f"{o}{low},{high}{'])'[c == ']']}", f"{o}{low},{int(high) + 1}{c}")
        if low != "-\\infty":
            wrong += tex(f"{'[('[o == '[']}{low},{high}{c}", f"{o}{int(low) - 1},{high}{c}")
        add("interval", forms[:1], some(4, forms) + some(2, wrong))
    for _ in range(25):
        a, b, c, d = sorted(some(4, range(-15, 16)))
        gold = f"({a},{b}) \\cup ({c},{d})"
        add(
            "interval",
            tex(gold),
            tex(
                f"({c},{d}) \\cup ({a},{b})",
                f"({a}, {b})\\cup({c}, {d})",
                f"({a},{b}] \\cup ({c},{d})",
                f"({a},{b}) \\cup ({c},{d + 1})",
                f"({a},{d})",
            ),
        )


def sets():
    for _ in range(60):
        items = some(rng.randint(2, 4), range(-20, 40))
        mixed_up = rng.sample(items, len(items))
        write = lambda all, sep=",": sep.join(map(str, all))
        forms = tex(
            f"\\{{{write(items)}\\}}",
            f"\\{{{write(mixed_up)}\\}}",
            f"\\{{{write(items, ', ')}\\}}",
            f"\\left\\{{{write(mixed_up)}\\right\\}}",
            f"\\boxed{{\\{{{write(mixed_up)}\\}}}}",
            write(mixed_up, ", "),
            write(items),
        )
        wrong = tex(
            f"\\{{{write(items[1:])}\\}}",
            f"\\{{{write([items[0] + 41] + items[1:])}\\}}",
            f"\\{{{write(items + [55])}\\}}",
            write(items[:-1] + [77]),
        )
        add("set", forms[:1] + forms[-1:], some(4, forms) + some(2, wrong))


def tuples():
    for _ in range(60):
        items = some(rng.choice([2, 3, 3, 4]), range(-15, 30))
        body = ",".join(map(str, items))
        forms = tex(f"({body})", f"({', '.join(map(str, items))})", f"\\left({body}\\right)", f"\\boxed{{({body})}}")
        if len(items) == 3:
            forms += tex(f"(x,y,z)=({body})")
        other = items[::-1]
        wrong = tex(f"({','.join(map(str, items[:-1] + [items[-1] + 1]))})", f"({','.join(map(str, [items[0] - 1] + items[1:]))})")
        if len(items) > 2 or items[0] > items[1]:
            wrong += tex(f"({','.join(map(str, other))})")
        add("tuple", forms[:1], some(3, forms) + some(2, wrong))
    for _ in range(20):
        n, d, m = rng.randint(1, 9), rng.choice([2, 4, 5]), rng.randint(10, 30)
        add(
            "tuple",
            tex(f"\\left(\\frac{{{n}}}{{{d}}},{m}\\right)"),
            tex(
                f"({n}/{d},{m})",
                f"({n / d},{m})",
                f"\\left( \\dfrac{{{n}}}{{{d}}}, {m} \\right)",
                f"({n}/{d},{m + 1})",
                f"({n + 1}/{d},{m})",
            ),
        )


def matrices():
    for _ in range(45):
        rows, cols = rng.choice([(2, 2), (2, 2), (3, 1), (2, 3), (2, 1)])
        m = [[rng.randint(-9, 9) for _ in range(cols)] for _ in range(rows)]
        write = (
            lambda m, env, gap="": f"\\begin{{{env}}}" + " \\\\ ".join((f"{gap}&{gap}").join(map(str, r)) for r in m) + f"\\end{{{env}}}"
        )
        changed = [list(r) for r in m]
        changed[rng.randrange(rows)][rng.randrange(cols)] += 1
        forms = tex(write(m, "pmatrix"), write(m, "bmatrix"), write(m, "pmatrix", " "), f"\\boxed{{{write(m, 'pmatrix')}}}")
        wrong = tex(
            write(changed, "pmatrix"),
            write([list(r) for r in zip(*m)], "pmatrix") if list(map(list, zip(*m))) != m else write(changed, "bmatrix"),
        )
        add("matrix", forms[:2], some(3, forms) + wrong)


def equations():
    for _ in range(60):
        v, n = rng.choice("xynkt"), rng.randint(-50, 50)
        forms = tex(f"{v}={n}", f"{v} = {n}", f"{n}", f"{v}={n}.0", f"\\boxed{{{v}={n}}}") + [f"{n}", f"Therefore ${v} = {n}$."]
        wrong = tex(f"{v}={n + 1}", f"{v}={-n if n else 3}", f"{n - 1}")
        add("equation", tex(f"{v}={n}") + [str(n)], some(4, forms) + some(2, wrong))
    for _ in range(50):
        a, b = rng.randint(2, 9), rng.randint(1, 20)
        forms = tex(f"y={a}x+{b}", f"y = {b} + {a}x", f"y-{a}x={b}", f"{a}x-y+{b}=0", f"y-{b}={a}x")
        wrong = tex(f"y={a}x-{b}", f"y={b}x+{a}" if a != b else f"y={a}x+{b + 1}", f"{a}x+y+{b}=0", f"y={a + 1}x+{b}")
        add("equation", forms[:1], some(3, forms) + some(2, wrong))


UNITS = ["cm", "m", "km", "kg", "hours", "minutes", "degrees", "meters", "square units", "mph", "inches", "feet", "apples", "days"]


def units():
    for _ in range(70):
        n, u = rng.choice([rng.randint(2, 400), rng.randint(11, 999) / 10]), rng.choice(UNITS)
        forms = tex(
            f"{n}\\text{{ {u}}}",
            f"{n}\\,\\text{{{u}}}",
            f"{n} \\text{{ {u}}}",
            f"{n}",
            f"{n}\\ \\mathrm{{{u}}}" if " " not in u else f"{n}",
            f"\\boxed{{{n}\\text{{ {u}}}}}",
        ) + [f"{n} {u}", str(n), f"The answer is {n} {u}."]
        wrong = tex(f"{n + 1}\\text{{ {u}}}", f"{n * 100}\\text{{ {u}}}") + [f"{n + 3} {u}"]
        add("unit", tex(f"{n}\\text{{ {u}}}", f"{n}") + [str(n)], some(4, forms) + some(2, wrong))


def degrees():
    for _ in range(40):
        n = rng.randint(1, 360)
        forms = tex(f"{n}^\\circ", f"{n}^{{\\circ}}", f"{n}", f"\\boxed{{{n}^\\circ}}", f"{n}\\text{{ degrees}}") + [str(n)]
        wrong = tex(f"{n + 1}^\\circ", f"{2 * n}^{{\\circ}}", f"{n - 1}")
        add("degree", tex(f"{n}^\\circ", f"{n}"), some(4, forms) + some(2, wrong))


def boxes():
    for _ in range(60):
        n, d = rng.randint(2, 60), rng.choice([3, 7, 11])
        inner, other = rng.choice(
            [(str(n), str(n + 1)), (f"\\frac{{{n}}}{{{d}}}", f"\\frac{{{n + d}}}{{{d}}}"), (f"{n}\\sqrt{{3}}", f"{n + 1}\\sqrt{{3}}")]
        )
        say = [
            "The total is $\\boxed{%s}$.",
            "We add $3 + 4$ and find $\\boxed{%s}$",
            "So, after 12 steps, the result is \\[\\boxed{%s}\\]",
            "Let $x = 5$. Then the answer is $\\boxed{%s}$, as desired.",
            "**Final answer:** $\\boxed{%s}$",
            "Thus $x = \\boxed{%s}$.",
            "The final answer is $%s$.",
            "The final answer is $%s$. I hope it is correct.",
            "Step 1: 2+2=4.\\nStep 2: the answer is $\\boxed{%s}$",
        ]
        add(
            "reply",
            tex(inner),
            [s.replace("\\n", " ") % inner for s in some(4, say)] + [s.replace("\\n", " ") % other for s in some(2, say)],
        )


def polynomials():
    for _ in range(60):
        a, b, v = rng.randint(1, 9), rng.randint(1, 9), rng.choice("xyztn")
        s, p = a + b, a * b
        forms = tex(
            f"({v}+{a})({v}+{b})",
            f"{v}^2+{s}{v}+{p}",
            f"{p}+{s}{v}+{v}^2",
            f"{v}^{{2}} + {s}{v} + {p}",
            f"({v}+{b})({v}+{a})",
            f"{v}({v}+{s})+{p}",
        )
        wrong = tex(f"({v}-{a})({v}+{b})", f"{v}^2+{s}{v}+{p + 1}", f"{v}^2+{s + 1}{v}+{p}", f"{v}^3+{s}{v}+{p}", f"{s}{v}+{p}")
        add("polynomial", forms[:2], some(4, forms) + some(2, wrong))
    for _ in range(45):
        a, b, c = rng.randint(2, 9), rng.randint(2, 9), rng.randint(1, 9)
        forms = tex(f"{a}x^3-{b}x+{c}", f"{c}-{b}x+{a}x^3", f"{a}x^{{3}} - {b}x + {c}", f"x({a}x^2-{b})+{c}", f"-{b}x+{a}x^3+{c}")
        wrong = tex(f"{a}x^3+{b}x+{c}", f"{a}x^2-{b}x+{c}", f"{a}x^3-{b}x-{c}", f"{b}x^3-{a}x+{c}" if a != b else f"{a + 1}x^3-{b}x+{c}")
        add("polynomial", forms[:1], some(3, forms) + some(2, wrong))
    for _ in range(25):
        a, b = rng.randint(2, 9), rng.randint(1, 9)
        forms = tex(
            f"\\frac{{{a}x+{b}}}{{x-1}}", f"\\frac{{{b}+{a}x}}{{x-1}}", f"{a}+\\frac{{{a + b}}}{{x-1}}", f"-\\frac{{{a}x+{b}}}{{1-x}}"
        )
        wrong = tex(f"\\frac{{{a}x+{b}}}{{x+1}}", f"\\frac{{x-1}}{{{a}x+{b}}}", f"\\frac{{{a}x-{b}}}{{x-1}}")
        add("rational function", forms[:1], some(3, forms) + some(2, wrong))
    for _ in range(25):
        a = rng.randint(2, 9)
        add(
            "expression",
            tex(f"{a}\\sin x \\cos x"),
            tex(f"{a} \\cos x \\sin x", f"\\frac{{{a}}}{{2}}\\sin(2x)", f"{a}\\sin x", f"{a}\\sin(2x)"),
        )
        add("expression", tex(f"e^{{{a}x}}"), tex(f"e^{{{a} x}}", f"(e^x)^{{{a}}}", f"e^{{{a + 1}x}}", f"{a}e^x"))
        add("expression", tex(f"\\ln({a}x)"), tex(f"\\ln {a}+\\ln x", f"\\ln(x\\cdot {a})", f"\\ln({a + 1}x)", f"{a}\\ln x"))


INVERSE = {"<": ">", "\\le": "\\ge", ">": "<", "\\ge": "\\le"}


def inequalities():
    for _ in range(50):
        n, sign = rng.randint(-20, 20), rng.choice(sorted(INVERSE))
        longer = {"\\le": "\\leq", "\\ge": "\\geq"}.get(sign, sign)
        strict = {"\\le": "<", "\\ge": ">", "<": "\\le", ">": "\\ge"}[sign]
        forms = tex(f"x {sign} {n}", f"{n} {INVERSE[sign]} x", f"x {longer} {n}", f"x{longer} {n}", f"\\boxed{{x {longer} {n}}}")
        wrong = tex(f"x {strict} {n}", f"x {sign} {n + 1}", f"x {INVERSE[sign]} {n}", f"y {sign} {n}")
        add("inequality", forms[:1], some(3, forms) + some(2, wrong))
    for _ in range(30):
        low, high = sorted(some(2, range(-20, 21)))
        first, second = rng.choice(["<", "\\le"]), rng.choice(["<", "\\le"])
        body = "(["[first != "<"] + f"{low},{high}" + ")]"[second != "<"]
        gold = f"{low} {first} x {second} {high}"
        wrong = tex(f"{low} {first} x {second} {high + 1}", f"{low - 1} {first} x {second} {high}")
        add("inequality", tex(gold), tex(gold.replace("\\le", "\\leq"), body, f"x \\in {body}", f"{low}{first} x{second} {high}") + wrong)


def infinities():
    forms = tex("\\infty", "+\\infty", "\\boxed{\\infty}", "-\\infty", "0", "1", "x=\\infty")
    for gold in tex("\\infty", "-\\infty"):
        add("infinity", [gold], forms)


def scientific():
    for _ in range(50):
        m, e = rng.randint(11, 99) / 10, rng.choice([-6, -5, -4, -3, -2, 2, 3, 4, 5, 6, 7, 8])
        exact = Fraction(str(m)) * Fraction(10) ** e
        plain = str(exact.numerator) if exact.denominator == 1 else f"{float(exact):.{1 - e}f}"
        forms = tex(
            f"{m} \\times 10^{{{e}}}",
            f"{m}\\cdot 10^{{{e}}}",
            plain,
            f"\\boxed{{{m} \\times 10^{{{e}}}}}",
            f"{round(m * 10)} \\times 10^{{{e - 1}}}",
        ) + [plain]
        wrong = tex(f"{m} \\times 10^{{{e + 1}}}", f"{m} \\times 10^{{{-e}}}", f"{round(m + .1, 1)} \\times 10^{{{e}}}")
        add("scientific", forms[:1], some(4, forms) + some(2, wrong))


def signs():
    for _ in range(40):
        n = rng.randint(1, 300)
        gold = rng.choice([n, -n])
        same, other = ("+", "-") if gold > 0 else ("-", "+")
        add(
            "sign",
            [str(gold), f"${gold}$"],
            [f"${same}{n}$", f"${same} {n}$", f"{gold}", f"${other}{n}$", f"$-({-gold})$", f"$|{-gold}|$"],
        )


def money():
    for _ in range(60):
        n = rng.choice([rng.randint(1, 900), rng.randint(1000, 99999), rng.randint(101, 9999) / 100])
        text = commas(n) if isinstance(n, int) else f"{n:.2f}"
        forms = [
            f"\\${text}",
            f"${text}",
            f"$\\${text}$",
            f"{text} dollars",
            f"The answer is ${text}.",
            f"{text}",
            f"$\\boxed{{\\${text}}}$",
            f"$\\boxed{{{text}}}$",
        ]
        if isinstance(n, int):
            forms += [f"${text}.00"]
        wrong = [f"${n + 1}", f"{round(n + 5, 2)} dollars", f"$\\${n + 10}$"]
        add("money", [str(n), text, f"$\\${text}$"], some(4, forms) + some(2, wrong))


def complexes():
    for _ in range(40):
        a, b = rng.randint(-9, 9), rng.randint(2, 9)
        forms = tex(f"{a}+{b}i", f"{b}i+{a}", f"{a} + {b}i", f"\\boxed{{{a}+{b}i}}")
        wrong = tex(f"{a}-{b}i", f"{a + 1}+{b}i", f"{a}+{b}", f"{b}+{a}i" if a != b else f"{b}i")
        add("complex", forms[:1], some(3, forms) + some(2, wrong))


VALUES = [  # forms of one value, and near misses
    (["5+4i", "5 + 4 i", "i(4-5i)"], ["5-4i", "4+5i"]),
    (["\\sin 30^\\circ", "\\frac{1}{2}", "0.5", "\\cos 60^\\circ"], ["\\sin 60^\\circ", "-\\frac{1}{2}"]),
    (["\\cos\\frac{\\pi}{4}", "\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}", "\\sin(\\pi/4)"], ["\\frac{\\sqrt{3}}{2}", "\\sqrt{2}"]),
    (["\\log_2 8", "3", "\\log_{2}{8}", "\\log_{10} 1000"], ["\\log_2 9", "4"]),
    (["\\ln e^2", "2", "2\\ln e"], ["e^2", "3"]),
    (["5!", "120", "5\\cdot 4!"], ["4!", "60"]),
    (["\\binom{6}{2}", "15", "\\frac{6!}{2!4!}"], ["\\binom{6}{3}", "30"]),
    (["|{-7}|", "7", "|7|"], ["-7", "8"]),
    (["\\ln 6", "\\ln 2+\\ln 3", "\\ln(6)"], ["\\ln 5", "\\ln 2 \\ln 3"]),
    (["\\tan\\frac{\\pi}{3}", "\\sqrt{3}", "3^{1/2}", "\\frac{3}{\\sqrt{3}}"], ["\\frac{1}{\\sqrt{3}}", "3"]),
    (["\\lfloor 3.7 \\rfloor", "3"], ["4", "3.7"]),
    (["\\lceil 3.2 \\rceil", "4"], ["3", "3.2"]),
    (
        ["\\frac{1+\\sqrt{5}}{2}", "\\frac{1}{2}+\\frac{\\sqrt{5}}{2}", "\\frac{2}{\\sqrt{5}-1}"],
        ["\\frac{1-\\sqrt{5}}{2}", "\\frac{\\sqrt{5}}{2}"],
    ),
    (["\\arctan 1", "\\frac{\\pi}{4}", "\\arcsin\\frac{\\sqrt{2}}{2}"], ["\\arctan 2", "\\frac{\\pi}{3}"]),
    (["2\\pm\\sqrt{3}", "2+\\sqrt{3}, 2-\\sqrt{3}", "\\{2-\\sqrt{3}, 2+\\sqrt{3}\\}"], ["2+\\sqrt{3}", "3\\pm\\sqrt{2}"]),
    (["\\pm 4", "4, -4", "x=\\pm 4"], ["4", "\\pm 5"]),
    (["e", "\\exp(1)"], ["e^2", "2.7"]),
    (["0.1\\overline{6}", "\\frac{1}{6}"], ["0.16", "0.\\overline{16}"]),
    (["0.333333", "0.3333330"], ["\\frac{1}{3}", "0.334"]),
]


def values():
    for forms, wrong in VALUES:
        for gold in tex(*forms):
            add("value", [gold], tex(*forms, *wrong))


WORDS = ["Monday", "even", "odd", "yes", "no", "Evelyn", "parabola", "circle", "blue", "north"]


def words():
    for word in WORDS:
        add(
            "word",
            tex(f"\\text{{{word}}}"),
            tex(
                f"\\text{{{word}}}",
                f"\\text{{{word.lower()}}}",
                f"\\boxed{{\\text{{{word}}}}}",
                f"\\mathrm{{{word}}}",
                *(f"\\text{{{w}}}" for w in some(2, [w for w in WORDS if w != word])),
            ),
        )
    for letter in "ABCDE":
        other = rng.choice([x for x in "ABCDE" if x != letter])
        add(
            "choice",
            tex(letter, f"\\text{{{letter}}}"),
            tex(
                letter,
                f"\\text{{{letter}}}",
                f"\\textbf{{({letter})}}",
                f"\\boxed{{{letter}}}",
                other,
                f"\\text{{{other}}}",
                f"\\boxed{{{other}}}",
            ),
        )


for generate in [
    integers,
    thousands,
    decimals,
    fractions,
    mixed,
    percentages,
    roots,
    powers,
    pis,
    intervals,
    sets,
    tuples,
    matrices,
    equations,
    units,
    degrees,
    boxes,
    polynomials,
    inequalities,
    infinities,
    scientific,
    signs,
    money,
    complexes,
    values,
    words,
]:
    generate()

with open(os.path.join(HERE, "pairs.tsv"), "w", encoding="utf-8") as out:
    for (gold, answer), kind in pairs.items():
        out.write(f"{kind}\t{gold}\t{answer}\t{int(verify(parse(gold), parse(answer)))}\n")
print(len(pairs), "pairs")
