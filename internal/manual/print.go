package manual

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// printer turns the Markdown of a page into lines for a terminal.
type printer struct {
	strings.Builder
	page    string // path of the page from docs on, for its links
	width   int
	isTopic func(path string) bool
	linked  []string // topics to which the page links, in the order of the text
}

// Text returns the Markdown of a page as text of at most width columns, and the topics to which the page links.
// Pictures, comments and the links of Mark are left out. Links to pages without a topic and to the web follow their
// text. Code and cells that are one long word may be wider.
func Text(page, markdown string, width int, isTopic func(path string) bool) (text string, linked []string) {
	markdown, _, _ = strings.Cut(strings.ReplaceAll(markdown, "\r\n", "\n"), Mark)
	p := &printer{page: page, width: max(width, 20), isTopic: isTopic}
	p.blocks(strings.Split(comment.ReplaceAllString(markdown, ""), "\n"))
	text = trailing.ReplaceAllString(p.String(), "\n")
	return strings.Trim(blanks.ReplaceAllString(text, "\n\n"), "\n") + "\n", p.linked
}

var (
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	blanks   = regexp.MustCompile(`\n{3,}`)
	trailing = regexp.MustCompile(` +\n`)
	item     = regexp.MustCompile(`^(?:[-*]|\d+\.) `)
	rule     = regexp.MustCompile(`^\|[-:| ]+\|$`)
	code     = regexp.MustCompile("`[^`]*`")
	// token is code, or a picture or link with its text and target.
	token   = regexp.MustCompile("`[^`]*`" + `|!?\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]*)\)`)
	strong  = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	slanted = regexp.MustCompile(`(^|[\s(])\*([^*\s][^*]*)\*`)
)

// blocks writes headings, lists, tables, code and paragraphs.
func (p *printer) blocks(lines []string) {
	for i := 0; i < len(lines); {
		line := lines[i]
		end := i + 1
		switch {
		case strings.HasPrefix(line, "```"):
			for end < len(lines) && !strings.HasPrefix(lines[end], "```") {
				end++
			}
			p.WriteString("\n    " + strings.Join(lines[i+1:end], "\n    ") + "\n\n")
			end++
		case strings.HasPrefix(line, "#"):
			p.heading(line)
		case strings.HasPrefix(line, "|"):
			for end < len(lines) && strings.HasPrefix(lines[end], "|") {
				end++
			}
			p.table(lines[i:end])
		case strings.TrimSpace(line) == "":
			p.WriteByte('\n')
		default:
			for end < len(lines) && continues(lines[end]) {
				end++
			}
			p.paragraph(strings.Join(lines[i:end], "\n"))
		}
		i = min(end, len(lines))
	}
}

// continues reports whether a line goes on with the paragraph above it.
func continues(line string) bool {
	return strings.TrimSpace(line) != "" && !item.MatchString(line) && !strings.HasPrefix(line, "```") &&
		!strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "#")
}

func (p *printer) heading(line string) {
	level := len(line) - len(strings.TrimLeft(line, "#"))
	lines := Fold(p.inline(line[level:]), p.width)
	p.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	if underline := map[int]string{1: "=", 2: "-"}[level]; underline != "" {
		p.WriteString(strings.Repeat(underline, utf8.RuneCountInString(lines[len(lines)-1])) + "\n")
	}
}

// paragraph writes a paragraph or an item of a list, whose further lines begin below its text.
func (p *printer) paragraph(text string) {
	mark := item.FindString(text)
	text = p.inline(strings.TrimPrefix(text, mark))
	if strings.TrimSpace(text) == "" { // a picture
		return
	}
	indent := strings.Repeat(" ", len(mark))
	p.WriteString(mark + strings.Join(Fold(text, p.width-len(mark)), "\n"+indent) + "\n")
}

// inline returns a text without marks of emphasis, pictures and the targets of links to topics. Code stays as it is.
func (p *printer) inline(text string) string {
	var b strings.Builder
	plain := func(text string) {
		text = slanted.ReplaceAllString(strong.ReplaceAllString(text, "$1"), "$1$2")
		b.WriteString(strings.ReplaceAll(text, `\|`, "|"))
	}
	from := 0
	for _, at := range token.FindAllStringSubmatchIndex(text, -1) {
		plain(text[from:at[0]])
		from = at[1]
		switch text[at[0]] {
		case '`':
			b.WriteString(text[at[0]:at[1]])
		case '[':
			shown := text[at[2]:at[3]]
			plain(shown)
			b.WriteString(p.target(shown, text[at[4]:at[5]]))
		}
	}
	plain(text[from:])
	return b.String()
}

// target returns what a reader needs of a link beside its text, and notes a topic.
func (p *printer) target(text, to string) string {
	if strings.Contains(to, "://") {
		return " <" + to + ">"
	}
	file, _, _ := strings.Cut(to, "#")
	if file == "" {
		return ""
	}
	if file = path.Join(path.Dir(p.page), file); p.isTopic(file) {
		if topic := (Page{Path: file}).Topic(); file != p.page && !slices.Contains(p.linked, topic) {
			p.linked = append(p.linked, topic)
		}
		return ""
	}
	name := strings.TrimPrefix(path.Join("docs", file), "../")
	if strings.Trim(text, "`") == name {
		return ""
	}
	return " (" + name + ")"
}

// Fold breaks a text into lines of at most width columns, between words. A longer word, such as a path, has
// a line of its own. It returns at least one line.
func Fold(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), word
			continue
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
