package mathequal

import "strings"

// functions maps the names of functions to their number of arguments.
var functions = map[string]int{
	"sqrt": 1, "frac": 2, "binom": 2,
	"sin": 1, "cos": 1, "tan": 1, "cot": 1, "sec": 1, "csc": 1, "arcsin": 1, "arccos": 1, "arctan": 1, "sinh": 1, "cosh": 1, "tanh": 1,
	"ln": 1, "log": 1, "lg": 1, "exp": 1, "abs": 1, "floor": 1, "ceil": 1,
}

// spelled maps other spellings of names, commands included.
var spelled = map[string]string{
	"dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "sfrac": "frac", "nicefrac": "frac", "flatfrac": "frac",
	"dbinom": "binom", "tbinom": "binom",
	"asin": "arcsin", "acos": "arccos", "atan": "arctan", "pi": "π", "infinity": "∞", "infty": "∞", "inf": "∞", "oo": "∞", "infin": "∞",
	"tg": "tan", "ctg": "cot", "arctg": "arctan", "cosec": "csc",
	"emptyset": "∅", "varnothing": "∅", "surd": "sqrt",
}

// signs maps commands to the marks that they stand for.
var signs = map[string]string{
	"cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥",
	"geqslant": "≥", "lt": "<", "gt": ">", "ne": "≠", "neq": "≠", "approx": "≈", "circ": "°", "degree": "°", "cup": "∪", "in": "∈",
	"lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉",
	"vert": "|", "lvert": "|", "Vert": "|", "lVert": "|", "rVert": "|", "rvert": "|", "mid": "|",
	"langle": "⟨", "rangle": "⟩",
	"lparen": "(", "rparen": ")", "lbrack": "[", "rbrack": "]", "minus": "-", "plus": "+", "plusmn": "±", "textdegree": "°", "deg": "°",
	"geqq": "≥", "leqq": "≤", "nless": "≥", "ngtr": "≤", "coloneqq": "=", "equiv": "=", "sim": "=", "simeq": "=",
	"longrightarrow": "⇒", "leadsto": "⇒", "because": "⇒", "bigstar": "⇒", "star": "⇒", "bullet": "⇒",
	"lbrace": `\{`, "rbrace": `\}`, "colon": ":", "and": "and", "land": "∧", "wedge": "∧", "or": "or", "lor": "or", "vee": "or",
	"cap": "∩", "setminus": "∖", "smallsetminus": "∖", "backslash": "∖", "prime": "'", "ldots": "…", "cdots": "…", "dots": "…", "dotsc": "…",
	"over": "over", "choose": "choose", "of": "of", "overline": "overline", "bar": "overline", "dot": "dot", "hat": "hat", "vec": "vec",
	"tilde": "tilde", "therefore": "⇒", "Rightarrow": "⇒", "implies": "⇒", "Longrightarrow": "⇒", "rightarrow": "⇒", "to": "⇒",
	"bigcup": "∪", "bigcap": "∩", "blacksquare": "∎", "square": "∎", "Box": "∎", "qed": "∎", "qedhere": "∎", "checkmark": "∎",
}

// textual are commands whose argument is text.
var textual = set("text textbf textit textrm textsf texttt textnormal textsl textsc textup textmd emph mathrm mbox hbox operatorname")

// namedSets are short commands for sets of numbers.
var namedSets = map[string]string{
	"R": "R", "RR": "R", "Reals": "R", "reals": "R", "N": "N", "NN": "N", "Z": "Z", "ZZ": "Z", "Q": "Q", "QQ": "Q",
}

// announces holds words before an answer.
var announces = set("the final answer ans total sum value result solution is " +
	"approximately about exactly option choice point both either")

// negative are words for the sign before a number.
var negative = set("negative minus")

// matrices are the environments that the parser reads.
var matrices = set("matrix pmatrix bmatrix psmallmatrix bsmallmatrix Bmatrix smallmatrix array")

// systems are the environments whose lines are a list.
var systems = set("cases dcases rcases gathered gather aligned align alignat alignedat flalign split multline equation eqnarray " +
	"displaymath math center")

// conjunctions are words between answers, and words before a condition.
var conjunctions = map[string]string{
	"and": "and", "und": "and", "和": "and", "与": "and", "及": "and", "or": "or", "oder": "or", "或": "or", "或者": "or",
	"for": ",", "where": ",",
}

// greek are the letters that are variables.
var greek = set("alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma " +
	"tau upsilon phi varphi chi psi omega " +
	"Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega ell hbar")

// phrases maps words, written together, to the sets that they name.
var phrases = map[string]*node{
	"allrealnumbers": reals, "allreals": reals, "therealnumbers": reals, "realnumbers": reals, "allrealvalues": reals,
	"thesetofallrealnumbers": reals, "setofallrealnumbers": reals, "thesetofrealnumbers": reals, "setofrealnumbers": reals,
	"emptyset": nothing, "theemptyset": nothing, "nosolution": nothing, "nosolutions": nothing, "norealsolution": nothing,
	"norealsolutions": nothing, "nosolutionexists": nothing, "nosolutionsexist": nothing, "thereisnosolution": nothing,
	"therearenosolutions": nothing, "thereisnorealsolution": nothing, "therearenorealsolutions": nothing,
	"anyrealnumber": reals, "everyrealnumber": reals, "allrealx": reals, "allrealvaluesofx": reals,
	"infinity": endless, "positiveinfinity": endless, "-infinity": tree(opNeg, endless),
}

var (
	reals   = &node{op: opSymbol, text: `\mathbb R`}
	nothing = &node{op: opSequence, text: "{}"}
	endless = tree(opInfinity)
)

// units maps the short units, which could be taken for variables, and names of units to one
// spelling.
var units = map[string]string{
	"mm": "mm", "cm": "cm", "dm": "dm", "km": "km", "kg": "kg", "mg": "mg", "ml": "ml", "hr": "hour", "hrs": "hour",
	"min": "minute", "mins": "minute",
	"sec": "second", "secs": "second", "ms": "ms", "ft": "foot", "feet": "foot", "inches": "inch", "lb": "pound",
	"lbs": "pound", "oz": "ounce",
	"mi": "mile", "mph": "mph", "kmh": "kmh", "usd": "$", "dollar": "$", "dollars": "$", "eur": "€",
	"inr": "₹", "deg": "°", "degs": "°",
	"euro": "€", "euros": "€",
	"cents": "cent",
	"hour":  "hour", "hours": "hour", "day": "day", "days": "day", "week": "week", "weeks": "week", "month": "month", "months": "month",
	"year": "year", "years": "year", "minute": "minute", "mile": "mile", "inch": "inch", "foot": "foot", "pound": "pound",
	"gram": "gram", "liter": "liter",
	"m": "meter", "metre": "meter", "metres": "meter", "g": "gram", "s": "second", "h": "hour", "l": "liter", "litre": "liter",
	"litres":     "liter",
	"millimeter": "mm", "millimeters": "mm", "centimeter": "cm", "centimeters": "cm", "kilometer": "km", "kilometers": "km",
	"millimetre": "mm", "millimetres": "mm", "centimetre": "cm", "centimetres": "cm", "kilometre": "km", "kilometres": "km",
	"kilogram": "kg", "kilograms": "kg", "milliliter": "ml", "milliliters": "ml", "percent": "%", "degrees": "°", "degree": "°",
}

// currencies are written before the number.
const currencies = "$€£¥₹"

// currencyWords are words for them.
var currencyWords = set("usd eur euro rs inr")

// magnitudes are words behind a number that are units, and also multiply it.
var magnitudes = map[string]*node{
	"hundred": integer(100), "thousand": integer(1000), "million": integer(1e6), "billion": integer(1e9), "trillion": integer(1e12),
	"dozen": integer(12),
}

func set(names string) map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(names) {
		m[n] = true
	}
	return m
}

// unitName returns the canonical spelling of a unit.
func unitName(word string) string {
	word = strings.ToLower(word)
	if u, ok := units[word]; ok {
		return u
	}
	if len(word) > 3 {
		return strings.TrimSuffix(word, "s")
	}
	return word
}

// contradict reports whether two units, words joined by spaces, have no word in common.
func contradict(a, b string) bool {
	words := set(b)
	for _, w := range strings.Fields(a) {
		if words[w] {
			return false
		}
	}
	return true
}
