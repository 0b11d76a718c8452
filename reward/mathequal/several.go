package mathequal

import (
	"regexp"
	"slices"
	"strings"
)

// maxGap bounds the text between two formulas that are one answer, in bytes.
const maxGap = 60

var (
	unset = strings.NewReplacer("$", "", `\(`, "", `\)`, "", `\[`, "", `\]`, "", `\text`, "", "{", "", "}", "", "*", "", `\qquad`, " ",
		`\quad`, " ", `\,`, " ", `\;`, " ", `\ `, " ")
	conjunction = regexp.MustCompile(`^\s*([,;、]?)\s*(and|or|und|oder|et|ou|as well as|&|和|或者|或|与|及)?(?:\s+(?:also|else))?` +
		`\s*(?:[A-Za-z](?:_\w)?\s*=)?\s*$`)
	// condition ends the text before formulas that say when another one holds.
	condition = regexp.MustCompile(`(?i)\b(?:for|when|where|if|since|as|with|given|at|let|because|once|whenever|suppose|assuming|taking|` +
		`using|setting|substituting|while|from)(?:\s+[A-Za-z]+){0,2}\s*$`)
	// lead stands between "the answer is" and a formula.
	lead = regexp.MustCompile(`(?i)^(?:(?:either|both|therefore|thus|hence|then|simply|just|exactly|clearly|indeed|now|given by|equal to)?` +
		`[\s,:*]*)*$`)
	// opening stands before an answer at the end of a sentence.
	opening = regexp.MustCompile(`(?i)(?:\b(?:is|are|be|was|were|gets?|got|gives?|gave|have|has|had|so|thus|hence|` +
		`therefore|then|either|both|that|yields?|equals?|when|if)\b|:)[\s,:]*`)
)

// linked reports whether the text between two formulas makes them one answer, and returns the link
// in one spelling.
func linked(gap string) (link string, ok bool) {
	if len(gap) > maxGap {
		return "", false
	}
	m := conjunction.FindStringSubmatch(unset.Replace(gap))
	switch {
	case m == nil || m[1] == "" && m[2] == "":
		return "", false
	case m[2] == "":
		return ", ", true
	case strings.Contains("or oder ou 或者", m[2]):
		return " or ", true
	}
	return " and ", true
}

// joinedBefore returns the last formula of a text with those before it that are part of the answer.
// A formula that says when the last one holds is none: "for n = 5, S = 15".
func joinedBefore(text string, all [][]int) string {
	last := len(all) - 1
	answer := firstGroup(text, all[last])
	first, whole, comma := last, answer, ""
	for first > 0 && last-first < maxItems {
		link, ok := linked(text[all[first-1][1]:all[first][0]])
		formula := firstGroup(text, all[first-1])
		if !ok || first == last && !isValue(answer) || !isValue(formula) {
			break
		}
		if link == ", " && comma == "" {
			comma = whole
		}
		whole = formula + link + whole
		first--
	}
	if comma != "" && condition.MatchString(before(text, all[first][0])) {
		return comma
	}
	return whole
}

// before returns the text of the same sentence, or its end if it is long.
func before(text string, end int) string {
	text = text[max(0, end-maxGap):end]
	return text[strings.LastIndexAny(text, ".!?\n")+1:]
}

// joinedAfter returns the first formula of a text, which m locates, with those that follow it as part
// of the answer.
func joinedAfter(text string, m []int) string {
	answer := firstGroup(text, m)
	for joined := range maxItems {
		text = text[m[1]:]
		next := formula.FindStringSubmatchIndex(text[:min(len(text), maxText)])
		if next == nil {
			break
		}
		link, ok := linked(text[:next[0]])
		formula := firstGroup(text, next)
		if !ok || joined == 0 && !isValue(answer) || !isValue(formula) {
			break
		}
		answer += link + formula
		m = next
	}
	return answer
}

// isValue reports whether a formula can be one of several answers: no equation, or one that gives the
// value of a variable, and no calculation such as 2 + 3 = 5.
func isValue(formula string) bool {
	r := read(formula)
	if len(r) == 0 {
		return false
	}
	n := r[0].root
	return n == nil || !isEquation(n) || isVariable(n.args[0])
}

// lastList returns the list of values without units in which the last sentence ends.
func lastList(text string) (string, bool) {
	text = strings.TrimSpace(text)
	line := strings.TrimRight(text[strings.LastIndexByte(text, '\n')+1:], " .!")
	if ends := sentenceEnd.FindAllStringIndex(line, -1); len(ends) > 0 {
		line = line[ends[len(ends)-1][1]:]
	}
	return list(line)
}

// list returns the end of a sentence that is a list of values without units, such as "x = −3 or 1".
func list(sentence string) (string, bool) {
	if len(sentence) > maxText {
		return "", false
	}
	starts := opening.FindAllStringIndex(sentence, -1)
	for i := range min(len(starts), maxUnclosed) {
		start := starts[len(starts)-1-i]
		rest := unstar(sentence[start[1]:])
		r := read(rest)
		if len(r) == 0 || r[0].root == nil {
			continue
		}
		switch n := r[0].root; {
		case n.op == opUnion || n.op == opIntersection:
			return rest, true
		case n.op == opSequence && n.text == "{}" && len(n.args) > 1 && !slices.ContainsFunc(n.args, hasUnit):
			return rest, true
		}
	}
	return "", false
}

// unstar removes Markdown's stars around a text, of which only one side may be there.
func unstar(text string) string {
	text = strings.TrimSpace(text)
	if strings.Count(text, "**")%2 == 1 || strings.Count(text, "**") <= 2 {
		return strings.Trim(text, " *")
	}
	return text
}

func hasUnit(n *node) bool {
	return n.op == opUnit || n.op == opRelation && slices.ContainsFunc(n.args, hasUnit)
}
