package mathequal

import (
	"regexp"
	"strings"
)

// respell writes signs, and what stands behind a ^, in one spelling.
func respell(text string) string {
	if strings.Contains(text, "/_") {
		text = slanted.ReplaceAllString(text, `\frac{$1$2}{$3$4}`)
	}
	if strings.Contains(text, "^") {
		text = raisedSigns.Replace(text)
	}
	return rewrite.Replace(text)
}

// slanted matches a fraction such as ^1/_2.
var slanted = regexp.MustCompile(`\^(?:([0-9]+)|\{([0-9]+)\}) */ *_(?:([0-9]+)|\{([0-9]+)\})`)

// rewrite normalises typesetting, and raised what stands behind a ^.
var (
	rewrite = strings.NewReplacer(
		"<=", "≤", ">=", "≥", "=>", "≥", "!=", "≠", ":=", "=", "**", "^", "+/-", "±",
		`\text{,}`, "{,}", `\text{.}`, ".", "{.}", ".", "{=}", "=", "{:}", ":", "{-}", "-", "{+}", "+",
		`\not=`, "≠", `\not =`, "≠", `\not<`, "≥", `\not>`, "≤", "~", " ", `\$`, "$", `\%`, "%", "...", `\ldots `,
	)
	raisedSigns = strings.NewReplacer(append(ordinals(),
		`^{\circ}`, "°", `^\circ`, "°", `^{ \circ }`, "°", `^{ \circ}`, "°", `^{{\circ}}`, "°", `^{^\circ}`, "°", `^{^{\circ}}`, "°", "^{°}", "°",
		`^{\mathrm{\circ}}`, "°", `^{\text{°}}`, "°", `^{\text{o}}`, "°", `^\text{o}`, "°", `^{\mathrm{o}}`, "°", `^\mathrm{o}`, "°",
	)...)
)

// ordinals returns pairs that write the raised endings of 1st to 4th as words.
func ordinals() (all []string) {
	for _, end := range []string{"st", "nd", "rd", "th"} {
		for _, raised := range []string{`^{\text{%}}`, `^\text{%}`, `^{\mathrm{%}}`, `^\mathrm{%}`, `^{\textrm{%}}`} {
			all = append(all, strings.Replace(raised, "%", end, 1), `\text{`+end+"}")
		}
	}
	return all
}
