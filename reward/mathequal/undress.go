package mathequal

import (
	"regexp"
	"strings"
)

// dressings are the commands that change only how an answer looks. The text says what follows the
// command and goes with it: o is [an option], x is {an argument}, * a star, d a length such as 3pt,
// h a length in braces or not, and . a full stop. Then _ leaves a space, { opens what the command
// dresses, w is like {, but letters inside it are a word, and l is like {, but a text below or above
// belongs to it.
var dressings = dressed(map[string]string{
	"_": "quad qquad enspace enskip space thinspace medspace thickspace nobreakspace hfill hfil newline linebreak par nonumber notag " +
		"displaylimits allowbreak nobreak noindent null strut mathstrut relax protect " +
		"smallskip medskip bigskip xspace leavevmode hss unskip vfill",
	"": "negthinspace negmedspace negthickspace bf rm it sf tt sc sl em cal mit tiny scriptsize footnotesize small normalsize large Large " +
		"LARGE huge Huge Tiny begingroup endgroup hline forall " +
		"displaystyle textstyle scriptstyle scriptscriptstyle bfseries mdseries itshape upshape slshape scshape rmfamily " +
		"sffamily ttfamily boldmath unboldmath normalfont centering limits nolimits",
	".": "left right middle big Big bigg Bigg bigl bigr bigm Bigl Bigr Bigm biggl biggr biggm Biggl Biggr Biggm",
	"l": "underbrace overbrace",
	"{": "boxed fbox ovalbox shadowbox doublebox vcenter vbox num underline underbar uline uuline uwave ul hl ensuremath smash " +
		"llap rlap clap mathllap " +
		"mathrlap mathclap mathop mathord mathrel mathbin " +
		"mathopen mathclose mathpunct mathinner mathcal mathscr mathfrak mathnormal",
	"w":  "mathbf boldsymbol bm pmb mathit mathsf mathtt",
	"o{": "framebox bbox", "ox{": "color textcolor mathcolor colorbox", "oxx{": "fcolorbox",
	"x{": "style class cssId href raisebox scalebox", "xo{": "enclose", "*h_": "hspace vspace mspace", "d_": "kern mkern hskip mskip",
	"*x": "tag", "oxx": "rule", "xxx": "definecolor", "x": "label phantom hphantom vphantom footnote",
})

func dressed(kinds map[string]string) map[string]string {
	m := map[string]string{}
	for kind, names := range kinds {
		for name := range set(names) {
			m[name] = kind
		}
	}
	return m
}

var length = regexp.MustCompile(`^ *-?[0-9.]* *(?:pt|em|ex|mu|cm|mm|in|px|sp|bp|pc|dd|cc)?`)

// stretch is how far a skip may stretch or shrink.
var stretch = regexp.MustCompile(`^ *(?:plus|minus) *-?[0-9.]+ *[a-z]+`)

// undress removes the commands of dressings and turns those of spacing into spaces.
func undress(text string) string {
	if !strings.ContainsAny(text, `\}`) {
		return text
	}
	u := undresser{rest: text, out: make([]byte, 0, len(text))}
	for u.rest != "" {
		switch c := u.rest[0]; {
		case c == '\\':
			u.command()
		case c == '}' && u.emptyGroup():
			u.rest = u.rest[1:]
		default:
			u.put(u.rest[:1])
			u.rest = u.rest[1:]
		}
	}
	return string(u.out)
}

type undresser struct {
	rest  string
	out   []byte
	named int // length of the output after the last command with a name
}

// put writes text. A letter does not become part of the command before it.
func (u *undresser) put(text string) {
	if u.named > 0 && len(u.out) == u.named && text != "" && isLetter(text[0]) {
		u.out = append(u.out, ' ')
	}
	u.out = append(u.out, text...)
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// space writes one space and skips those that follow.
func (u *undresser) space() {
	if n := len(u.out); n > 0 && u.out[n-1] != ' ' {
		u.out = append(u.out, ' ')
	}
	u.rest = strings.TrimLeft(u.rest, " ")
}

// emptyGroup removes a group without content, unless it may be an argument, and reports whether it
// did.
func (u *undresser) emptyGroup() bool {
	if n := len(u.out); n > 1 && u.out[n-1] == '{' && (u.out[n-2] == '^' || u.out[n-2] == '_') {
		u.out = u.out[:n-2]
		return true
	}
	inner := strings.TrimRight(string(u.out[max(0, len(u.out)-8):]), " ")
	if !strings.HasSuffix(inner, "{") || strings.HasSuffix(inner, `\{`) {
		return false
	}
	before := strings.TrimRight(string(u.out), " ")
	before = strings.TrimRight(before[:len(before)-1], " ")
	if before != "" && strings.ContainsAny(before[len(before)-1:], "}]^_") || len(before) == u.named && u.named > 0 {
		return false
	}
	spaced := len(inner) < len(u.out[max(0, len(u.out)-8):])
	u.out = u.out[:len(before)]
	if spaced {
		u.space()
	}
	return true
}

// command reads a command: a backslash with letters, or with one sign.
func (u *undresser) command() {
	s, n := u.rest[1:], 0
	for n < len(s) && isLetter(s[n]) {
		n++
	}
	name := s[:n]
	u.rest = s[n:]
	kind, known := dressings[name]
	switch {
	case n == 0:
		u.escape()
	case name == "overset" || name == "underset" || name == "stackrel":
		u.stacked(name)
	case name == "SI" || name == "qty" || name == "si" || name == "unit":
		u.measured(len(name) > 2 && name != "unit" || name == "SI")
	case name == "cr":
		u.out = append(u.out, `\\`...)
	case name == "ang":
		if angle, ok := u.take(); ok {
			u.put(angle + "°")
		}
	case known:
		u.skip(kind)
	default:
		u.out = append(u.out, `\`+name...)
		u.named = len(u.out)
	}
}

// escape reads a backslash before a sign.
func (u *undresser) escape() {
	if u.rest == "" {
		return
	}
	sign := u.rest[:1]
	u.rest = u.rest[1:]
	switch sign {
	case "_":
		u.out = append(u.out, '_')
	case ",", ";", ":", ">", " ", "\n", "/", "(", ")", "[", "]":
		u.space()
	case "!", "-", "@":
		u.rest = strings.TrimLeft(u.rest, " ")
	case `\`:
		u.out = append(u.out, `\\`...)
		if option, rest, ok := strings.Cut(u.rest, "]"); ok && strings.HasPrefix(option, "[") && length.FindString(option[1:]) == option[1:] {
			u.rest = rest // \\[2pt]
		}
	default:
		u.out = append(u.out, `\`+sign...)
	}
}

// skip reads what goes with a dressing.
func (u *undresser) skip(kind string) {
	for _, k := range kind {
		u.rest = strings.TrimLeft(u.rest, " ")
		switch k {
		case 'o':
			if option, rest, ok := strings.Cut(u.rest, "]"); ok && strings.HasPrefix(option, "[") {
				u.rest = rest
			}
		case 'x':
			if inner, ok := group(u.rest); ok && strings.HasPrefix(u.rest, "{") {
				u.rest = u.rest[len(inner)+2:]
			}
		case '*', '.':
			u.rest = strings.TrimPrefix(u.rest, string(k))
		case 'h':
			if _, ok := u.take(); !ok {
				u.skip("d")
			}
		case 'd':
			u.rest = u.rest[len(length.FindString(u.rest)):]
			u.rest = u.rest[len(stretch.FindString(u.rest)):] // plus
			u.rest = u.rest[len(stretch.FindString(u.rest)):] // minus
		case '_':
			u.space()
		case 'l':
			u.unlabel()
			u.content(false)
		case '{', 'w':
			u.content(k == 'w')
		}
	}
	if kind == "" {
		u.rest = strings.TrimLeft(u.rest, " ")
	}
}

var (
	simple   = regexp.MustCompile(`^\{([0-9A-Za-z.,]*|[-+=:])\}`)
	wordLike = regexp.MustCompile(`^[A-Za-z][a-z]+$`)
)

// content removes the braces around dressed digits and letters, which may continue those beside
// them: \color{red}{1}7 is 17.
func (u *undresser) content(words bool) {
	m := simple.FindStringSubmatch(u.rest)
	if m == nil {
		return
	}
	u.rest = u.rest[len(m[0]):]
	if words && wordLike.MatchString(m[1]) {
		u.out = append(u.out, `\text{`+m[1]+`}`...)
		return
	}
	u.put(m[1])
}

var (
	markup   = regexp.MustCompile(`</?(?:b|i|u|em|strong|mark|span|p|div|code|font|center|math)(?: [^<>]*)?>`)
	htmlSup  = regexp.MustCompile(`<(sup|sub)>([^<>]*)</(?:sup|sub)>`)
	bold     = regexp.MustCompile(`(^|[\s(=:])\*\*([^\s*](?:[^*]*[^\s*])?)\*\*([\s.,;:!?)]|$)`)
	quotings = []string{"**", "**", "__", "__", "*", "*", `"`, `"`, "“", "”", "'", "'", "«", "»", "「", "」"}
)

// unquote removes Markdown's and HTML's marks around an answer, and quotation marks.
func unquote(text string) string {
	if strings.Contains(text, "</") {
		text = htmlSup.ReplaceAllStringFunc(text, func(s string) string {
			m := htmlSup.FindStringSubmatch(s)
			return map[string]string{"sup": "^", "sub": "_"}[m[1]] + "{" + m[2] + "}"
		})
		text = markup.ReplaceAllString(text, "")
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "`", " "))
	if strings.Contains(text, "**") {
		text = bold.ReplaceAllString(text, "$1$2$3")
	}
	for i := 0; i < len(quotings); i += 2 {
		opening, closing := quotings[i], quotings[i+1]
		inner := strings.TrimSuffix(strings.TrimPrefix(text, opening), closing)
		if len(inner) == len(text)-len(opening)-len(closing) && len(inner) > 0 && !strings.Contains(inner, opening) {
			text = strings.TrimSpace(inner)
		}
	}
	return text
}
