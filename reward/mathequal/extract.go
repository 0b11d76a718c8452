package mathequal

import (
	"regexp"
	"strings"
)

// Answer returns the final answer of a reply: the content of the last <answer> tag, of the last
// \boxed, the text after ####, or after "the answer is", or else the last formula, last line or
// last number. Formulas, boxes and numbers that "and", "or" or commas join are one answer. It ignores
// everything before a closing </think>. It returns "" if there is none.
func Answer(reply string) string {
	if _, after, ok := cutLast(reply, "</think>"); ok {
		reply = after
	}
	if inner, ok := Tagged(reply); ok {
		if boxed, ok := Boxed(inner); ok {
			return boxed
		}
		return inner
	}
	for _, find := range []func(string) (string, bool){Boxed, Hashed, stated, lastFormula, lastLine, lastList, LastNumber} {
		if found, ok := find(reply); ok {
			return found
		}
	}
	return ""
}

// Truth returns the answer of a reference solution: the text after ####, the content of \boxed, or
// the whole solution.
func Truth(solution string) string {
	if answer, ok := Hashed(solution); ok {
		return answer
	}
	if answer, ok := Boxed(solution); ok {
		return answer
	}
	return strings.TrimSpace(solution)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Tagged returns the content of the last <answer>…</answer>.
func Tagged(text string) (string, bool) {
	before, _, ok := cutLast(text, "</answer>")
	if !ok {
		return "", false
	}
	_, inner, ok := cutLast(before, "<answer>")
	return strings.TrimSpace(inner), ok
}

// maxUnclosed bounds how many boxes without an end are skipped, because the search from each scans
// the whole text.
const maxUnclosed = 8

// Boxed returns the argument of the last \boxed or \fbox with balanced braces. If "and", "or" or a
// comma joins boxes, it returns their arguments, joined.
func Boxed(text string) (string, bool) {
	last, ok := lastBox(text)
	if !ok {
		return "", false
	}
	answer := last.inner
	for range maxItems {
		before, link, ok := boxBefore(text[:last.start])
		if !ok {
			break
		}
		last = before
		answer = last.inner + link + answer
	}
	return answer, true
}

// boxBefore returns the box that the end of a text links to what follows.
func boxBefore(text string) (before box, link string, ok bool) {
	for end := len(text); end > 0 && len(text)-end < maxGap; {
		end = strings.LastIndexByte(text[:end], '}')
		if end < 0 {
			break
		}
		if link, ok = linked(text[end+1:]); !ok {
			continue
		}
		from := max(0, end+1-maxText)
		if before, ok = lastBox(text[from : end+1]); ok && before.end == end+1-from {
			before.start += from
			return before, link, true
		}
	}
	return box{}, "", false
}

// box is the place and the argument of a \boxed.
type box struct {
	start, end int
	inner      string
}

func lastBox(text string) (box, bool) {
	end := len(text)
	for range maxUnclosed {
		i := max(strings.LastIndex(text[:end], `\boxed`), strings.LastIndex(text[:end], `\fbox`))
		if i < 0 {
			return box{}, false
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(text[i:], `\boxed`), `\fbox`)
		rest = strings.TrimLeft(rest, " \n")
		if inner, ok := group(rest); ok {
			b := box{start: i, end: len(text) - len(rest) + len(inner), inner: strings.TrimSpace(inner)}
			if rest[0] == '{' {
				b.end += 2
			}
			return b, true
		}
		end = i
	}
	return box{}, false
}

// group returns the text between the opening brace at the start and its closing brace, or a bare
// word.
func group(s string) (string, bool) {
	if !strings.HasPrefix(s, "{") {
		i := strings.IndexAny(s, "$ \n")
		if i < 0 {
			i = len(s)
		}
		return s[:i], i > 0
	}
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++ // \{ and \} do not count
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[1:i], true
			}
		}
	}
	return "", false
}

// Hashed returns the rest of the line after the last ####, which marks answers in GSM8K.
func Hashed(text string) (string, bool) {
	_, rest, ok := cutLast(text, "####")
	if !ok {
		return "", false
	}
	line, _, _ := strings.Cut(strings.TrimLeft(rest, " \t\n"), "\n")
	line = strings.TrimSpace(line)
	return line, line != ""
}

var (
	answerIs    = regexp.MustCompile(`(?i)\b(?:answer|result)(?:\s+is|\s*:|\s*=)\s*:?\s*`)
	sentenceEnd = regexp.MustCompile(`[.!?](?:\s|\*|$)|\n`)
	formula     = regexp.MustCompile(`(?s)\$\$(.+?)\$\$|\$([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]|` +
		`(\\begin\{(?:equation|align|gather|multline|eqnarray|displaymath)\*?\}.+?\\end\{[a-z]+\*?\})`)
	anyNumber = regexp.MustCompile(`[$€£]?[0-9](?:[0-9,]|'[0-9]{3})*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:/[0-9]+)?%?|[$€£]?\.[0-9]+`)
)

// stated returns the rest of the sentence after the last "the answer is" or "answer:".
func stated(text string) (string, bool) {
	all := answerIs.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return "", false
	}
	rest := text[all[len(all)-1][1]:]
	if m := formula.FindStringSubmatchIndex(rest); m != nil && lead.MatchString(rest[:m[0]]) {
		return joinedAfter(rest, m), true
	}
	if end := sentenceEnd.FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	rest = unstar(rest)
	if rest != "" && !valid(rest) { // "the answer is therefore 5 because …"
		if l, ok := list(rest); ok {
			return l, true
		}
		if n, ok := LastNumber(rest); ok {
			return n, true
		}
	}
	return rest, rest != ""
}

func firstGroup(s string, m []int) string {
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 {
			return strings.TrimSpace(s[m[i]:m[i+1]])
		}
	}
	return ""
}

// lastFormula returns the last formula of the text and those that are joined to it, unless a number
// follows.
func lastFormula(text string) (string, bool) {
	if !strings.ContainsAny(text, `$\`) {
		return "", false
	}
	all := formula.FindAllStringSubmatchIndex(text, -1)
	if len(all) == 0 {
		return "", false
	}
	if anyNumber.MatchString(text[all[len(all)-1][1]:]) {
		return "", false
	}
	return joinedBefore(text, all), true
}

// lastLine returns the last non-empty line, if all of it is mathematics.
func lastLine(text string) (string, bool) {
	text = strings.TrimSpace(text)
	line := text[strings.LastIndexByte(text, '\n')+1:]
	line = unstar(line)
	if valid(line) {
		return line, true
	}
	return line, line != "" && !anyNumber.MatchString(line) && len(line) <= maxText
}

// LastNumber returns the last number of the text with its sign, currency or percent sign.
func LastNumber(text string) (string, bool) {
	all := anyNumber.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return "", false
	}
	start, end := all[len(all)-1][0], all[len(all)-1][1]
	if rest := text[end:]; strings.HasPrefix(rest, `\%`) {
		end += 2
	}
	before := strings.TrimSuffix(text[:start], `\`)
	if strings.HasSuffix(before, "-") || strings.HasSuffix(before, "−") {
		sign := strings.TrimSuffix(strings.TrimSuffix(before, "-"), "−")
		last := strings.TrimRight(sign, " ")
		if last == "" || !strings.ContainsAny(last[len(last)-1:],
			"0123456789)abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") || len(last) < len(sign) && before[len(before)-1] == '-' {
			return "-" + strings.TrimRight(text[start:end], ","), true
		}
	}
	return strings.TrimRight(text[start:end], ","), true
}
