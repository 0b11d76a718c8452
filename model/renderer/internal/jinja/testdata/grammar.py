"""Random templates of the constructs that chat templates use, for comparison with Python's Jinja2."""
import random

NAMES = ["a", "b", "c", "messages", "m", "n", "u", "s", "d", "ns"]
CONSTANTS = ["0", "1", "2", "-1", "3", "7", "2.5", "-0.5", "1e3", "'a'", "'b'", "''", "'Hello, World'", "' x\\n'", "'é漢'", "true", "false", "none", "'role'", "'user'", "'content'"]
METHODS = ["upper()", "lower()", "strip()", "split()", "split(',')", "split(' ', 1)", "title()", "lstrip('H ')", "rstrip('\\n')", "startswith('H')", "endswith('x')", "replace('l', 'L')",
           "find('o')", "items()", "keys()", "values()", "get('role')", "get('k', 1)", "count('a')", "join(['p', 'q'])", "capitalize()", "splitlines()", "partition(',')", "rsplit(',', 1)", "zfill(4)", "isdigit()", "format(1, 2)"]
FILTERS = ["tojson", "tojson(indent=2)", "trim", "join(',')", "join", "list", "length", "first", "last", "upper", "lower", "title", "capitalize", "default('d')", "default('d', true)", "reverse", "reverse|list", "sort",
           "unique|list", "map('string')|list", "map('upper')|list", "map(attribute='role')|list", "selectattr('role')|list", "selectattr('role', 'equalto', 'user')|list", "rejectattr('role', 'defined')|list",
           "select|list", "reject('none')|list", "select('string')|list", "items|list", "dictsort", "int", "float", "string", "abs", "round", "round(1)", "sum", "min", "max", "replace('a', 'b')", "indent(2)", "batch(2)|list",
           "slice(2)|list", "groupby('role')", "wordcount", "count", "map('length')|list", "map('default', 'z')|join('-')", "truncate(4)", "center(9)", "int(5)|string", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "e|string|length"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "odd", "even", "divisibleby(2)", "eq(1)", "in([1, 'a'])", "lower", "upper", "not none", "not string", "not defined", "gt 1", "callable"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "~", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
TAGS = [("{%", "%}"), ("{%", "%}"), ("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}"), ("{%+", "%}"), ("{%", "+%}")]
TEXT = ["", "", " ", "\n", "\n  ", "x", " y ", "\t", "z\n", "  \n\n  ", "{ }"]
CONTEXT = {"a": 1, "b": "Hello, World", "c": [3, 1, 2], "s": "a,b,c", "d": {"z": 1, "role": "x", "a": [1, None, 2.0, True]}, "n": None,
           "messages": [{"role": "system", "content": " sys "}, {"role": "user", "content": "Hi\nthere"}, {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}]}


class Grammar:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, options):
        return self.r.choice(options)

    def expr(self, depth=3):
        r = self.r.random()
        if depth == 0 or r < 0.22:
            return self.pick(NAMES) if self.r.random() < 0.6 else self.pick(CONSTANTS)
        e = lambda: self.expr(depth - 1)
        p = lambda: "(" + self.expr(depth - 1) + ")" if self.r.random() < 0.4 else self.expr(depth - 1)
        choices = [
            lambda: f"{p()} {self.pick(BINARY)} {p()}", lambda: f"{p()} {self.pick(BINARY)} {p()}",
            lambda: f"{p()}|{self.pick(FILTERS)}", lambda: f"{p()}|{self.pick(FILTERS)}", lambda: f"{p()}|{self.pick(FILTERS)}",
            lambda: f"{p()} is {self.pick(TESTS)}", lambda: f"{self.postfix(depth)}.{self.pick(METHODS)}",
            lambda: f"{self.postfix(depth)}.{self.pick(['role', 'content', 'a', 'z', 'items', 'x'])}", lambda: f"{self.postfix(depth)}[{e()}]",
            lambda: f"{self.postfix(depth)}[{self.bound()}:{self.bound()}{self.pick(['', ':-1', ':2'])}]", lambda: f"not {p()}", lambda: f"-{p()}",
            lambda: f"({e()} if {e()} else {e()})", lambda: f"({e()} if {e()})", lambda: f"[{', '.join(e() for _ in range(self.r.randrange(4)))}]", lambda: f"({e()}, {e()})",
            lambda: "{" + ", ".join(f"{self.pick(CONSTANTS)}: {e()}" for _ in range(self.r.randrange(3))) + "}", lambda: f"range({self.r.randrange(5)})", lambda: f"mac({e()})", lambda: f"mac({e()}, k={e()})",
            lambda: f"dict(a={e()})", lambda: f"'%s|%s' % ({e()}, {e()})", lambda: f"{p()}|map('{self.pick(['string', 'upper', 'length', 'tojson', 'first'])}')|list"]
        return self.pick(choices)()

    def bound(self):
        return self.pick(["", "", "1", "-1", "2", "a", "n"])

    def postfix(self, depth):
        return self.pick(NAMES + ["messages[0]", "messages[-1]", "d", "b", "(" + self.expr(depth - 1) + ")"])

    def tag(self, body):
        open_, close = self.pick(TAGS)
        return f"{open_} {body} {close}"

    def out(self):
        open_, close = self.pick([("{{", "}}"), ("{{", "}}"), ("{{-", "}}"), ("{{", "-}}"), ("{{-", "-}}")])
        return f"{open_} {self.expr()} {close}"

    def body(self, depth, loop=False):
        return "".join(self.pick(TEXT) + self.statement(depth, loop) for _ in range(self.r.randrange(1, 4))) + self.pick(TEXT)

    def statement(self, depth, loop):
        if depth == 0 or self.r.random() < 0.35:
            return self.out()
        t, b = self.tag, lambda l=loop: self.body(depth - 1, l)
        name = lambda: self.pick(["a", "b", "m", "u", "v", "messages"])
        choices = [
            lambda: t(f"if {self.expr()}") + b() + t("endif"), lambda: t(f"if {self.expr()}") + b() + t("else") + b() + t("endif"),
            lambda: t(f"if {self.expr()}") + b() + t(f"elif {self.expr()}") + b() + t("endif"),
            lambda: t(f"for m in {self.pick(['messages', 'c', 'd', 'range(3)', self.expr()])}{self.pick(['', '', ' if ' + self.expr(2)])}") + b(True) + self.pick(["", t("else") + b()]) + t("endfor"),
            lambda: t(f"for m, v in {self.pick(['d', 'd|dictsort|list', 'messages[0]'])}{self.pick(['.items()', '|items', ''])}") + b(True) + t("endfor"),
            lambda: t(f"set {name()} = {self.expr()}"), lambda: t(f"set {name()} = {self.expr()}"), lambda: t(f"set {name()}") + b() + t("endset"), lambda: t(f"set ns.x = {self.expr()}"),
            lambda: t(f"with {name()} = {self.expr()}") + b() + t("endwith"), lambda: t(f"filter {self.pick(['upper', 'trim', 'indent(2)', 'replace(1, 2)|lower'])}") + b() + t("endfilter"),
            lambda: t("macro mac(a, k=a)") + b(False) + t("endmacro"), lambda: t(f"call mac({self.expr()})") + b(False) + t("endcall"), lambda: t("generation") + b(False) + t("endgeneration"),
            lambda: self.pick(["{#", "{#-"]) + " comment " + self.pick(["#}", "-#}"]), lambda: t(f"set m, v = {self.expr()}")]
        if loop:
            choices += [lambda: t(f"if {self.expr()}") + t(self.pick(["break", "continue"])) + t("endif"),
                        lambda: "{{ " + self.pick(["loop.index", "loop.last", "loop.length", "loop.first", "loop.previtem", "loop.nextitem", "loop.revindex0", "loop.cycle('o', 'e')"]) + " }}"] * 2
        return self.pick(choices)()

    def template(self):
        return "{% macro mac(x, k='k') %}<{{ x }}{{ k }}{{ caller() if caller }}>{% endmacro %}{% set ns = namespace(x=0) %}" + self.body(3) + "{{ ns.x }}"
