package mathequal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// characters holds characters outside ASCII and how ASCII or LaTeX spells them.
var characters = table(
	"‐‑‒–—―−﹣ -", "×⨯✕✖·⋅∗•∙‧・ *", "÷∕⁄ /", "≦⩽ ≤", "≧⩾ ≥", "≃≅ =", "∣│ |", "∶ː :", "′’‘ '", "、 ,", "。 .", "º˚ °", "〈 ⟨", "〉 ⟩", "￥ ¥",
	"℃ °C", "℉ °F", "＄﹩ \\$", "ℎ h", "ⅈ i", "ⅇℯ e", "∀ _", "∵ ⇒", "″ ''", "✓✔✅ ∎", "■ ∎", "→⟶⟹⇒∴ ⇒",
	`√ \sqrt_`, `∛ \sqrt[3]`, `∜ \sqrt[4]`, `∞ \infty_`, `∅⌀ \emptyset_`, `∖ \setminus_`, `∧ \land_`, `∨ \lor_`, `…⋯ \ldots_`,
	`ℝ \mathbb{R}`, `ℂ \mathbb{C}`, `ℕ \mathbb{N}`, `ℚ \mathbb{Q}`, `ℤ \mathbb{Z}`, `ℙ \mathbb{P}`, `ℓ \ell_`, `ℏ \hbar_`,
	`½ \frac{1}{2}`, `⅓ \frac{1}{3}`, `⅔ \frac{2}{3}`, `¼ \frac{1}{4}`, `¾ \frac{3}{4}`, `⅕ \frac{1}{5}`, `⅖ \frac{2}{5}`, `⅗ \frac{3}{5}`,
	`⅘ \frac{4}{5}`, `⅙ \frac{1}{6}`, `⅚ \frac{5}{6}`, `⅐ \frac{1}{7}`, `⅛ \frac{1}{8}`, `⅜ \frac{3}{8}`, `⅝ \frac{5}{8}`, `⅞ \frac{7}{8}`,
	`⅑ \frac{1}{9}`, `⅒ \frac{1}{10}`,
	`α \alpha_`, `β \beta_`, `γ \gamma_`, `δ \delta_`, `εϵ \epsilon_`, `ζ \zeta_`, `η \eta_`, `θϑ \theta_`, `ι \iota_`, `κ \kappa_`,
	`λ \lambda_`, `μµ \mu_`, `ν \nu_`, `ξ \xi_`, `π \pi_`, `ρϱ \rho_`, `σ \sigma_`, `τ \tau_`, `υ \upsilon_`, `φϕ \phi_`, `χ \chi_`,
	`ψ \psi_`, `ω \omega_`, `Γ \Gamma_`, `Δ∆ \Delta_`, `Θ \Theta_`, `Λ \Lambda_`, `Ξ \Xi_`, `Σ \Sigma_`, `Υ \Upsilon_`, `Φ \Phi_`,
	`Ψ \Psi_`, `Ω \Omega_`,
	"\u2062 *", "\u2063 ,", "\u2064 _", // invisible times, separator and plus
)

// raised and lower hold the characters of exponents and of indices.
var (
	raised = pairs("⁰0¹1²2³3⁴4⁵5⁶6⁷7⁸8⁹9⁺+⁻-⁼=⁽(⁾)ⁿnⁱiˣxʸyᵃaᵇbᶜcᵈdᵉeᶠfᵍgʰhʲjᵏkˡlᵐmᵒoᵖpʳrˢsᵗtᵘuᵛvʷwᶻz")
	lower  = pairs("₀0₁1₂2₃3₄4₅5₆6₇7₈8₉9₊+₋-₌=₍(₎)ₐaₑeₕhᵢiⱼjₖkₗlₘmₙnₒoₚpᵣrₛsₜtᵤuᵥvₓx")
)

// table reads lines of characters, a space and their spelling, in which _ is a space.
func table(lines ...string) map[rune]string {
	m := map[rune]string{}
	for _, line := range lines {
		all, spelling, _ := strings.Cut(line, " ")
		for _, r := range all {
			m[r] = strings.ReplaceAll(spelling, "_", " ")
		}
	}
	return m
}

func pairs(text string) map[rune]rune {
	m := map[rune]rune{}
	runes := []rune(text)
	for i := 0; i < len(runes); i += 2 {
		m[runes[i]] = runes[i+1]
	}
	return m
}

// ascii spells the characters of other keyboards, scripts and fonts in ASCII or LaTeX and drops
// invisible ones. A character without such a spelling stays.
func ascii(text string) string {
	foreign := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	if foreign < 0 {
		return text
	}
	out := append(make([]byte, 0, 2*len(text)), text[:foreign]...)
	for text = text[foreign:]; text != ""; {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r < utf8.RuneSelf || r == utf8.RuneError:
			out = append(out, text[:size]...)
		case raised[r] != 0:
			out, text = exponentOf(out, text)
			continue
		case lower[r] != 0:
			index, rest := spellRun(text, lower)
			out, text = append(out, "_{"+index+"}"...), rest
			continue
		case combining(r):
			out = accented(out, r)
		default:
			out = append(out, spellCharacter(r)...)
		}
		text = text[size:]
	}
	return string(out)
}

// spellRun spells the characters at the start of a text that the table holds.
func spellRun(text string, spelling map[rune]rune) (spelt, rest string) {
	var b strings.Builder
	for i, r := range text {
		if spelling[r] == 0 {
			return b.String(), text[i:]
		}
		b.WriteRune(spelling[r])
	}
	return b.String(), ""
}

// exponentOf spells raised characters: x² is x^{2}, ³√8 is a cube root, ¹⁄₂ is a fraction.
func exponentOf(out []byte, text string) ([]byte, string) {
	inner, rest := spellRun(text, raised)
	below, ok := strings.CutPrefix(rest, "⁄")
	if !ok {
		below, ok = strings.CutPrefix(rest, "/")
	}
	if ok {
		if lower, rest := spellRun(below, lower); lower != "" {
			return append(out, `\frac{`+inner+`}{`+lower+`}`...), rest
		}
	}
	if radicand, ok := strings.CutPrefix(rest, "√"); ok && !endsOperand(out) {
		return append(out, `\sqrt[`+inner+`]`...), radicand
	}
	return append(out, "^{"+inner+"}"...), rest
}

func endsOperand(out []byte) bool {
	trimmed := strings.TrimRight(string(out), " ")
	return trimmed != "" && strings.ContainsAny(trimmed[len(trimmed)-1:],
		")]}0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// Combining characters, which follow the digit or sign that they change.
const (
	overBar, overMacron, overDot = '\u0305', '\u0304', '\u0307'
	underBar, slash              = '\u0332', '\u0338'
)

func combining(r rune) bool {
	return r == overBar || r == overMacron || r == overDot || r == underBar || r == slash
}

// accented applies a combining character to the byte before it. It drops a bar below.
func accented(out []byte, r rune) []byte {
	n := len(out)
	if r == underBar {
		return out
	}
	if n > 0 && r == slash && out[n-1] == '=' {
		return append(out[:n-1], "≠"...)
	}
	if n > 0 && r != slash && isDigit(string(out[n-1:]), 0) {
		command := `\overline{`
		if r == overDot {
			command = `\dot{`
		}
		return append(append(out[:n-1:n-1], command...), out[n-1], '}')
	}
	return utf8.AppendRune(out, r)
}

// alphabets are the first letters of the mathematical alphabets of Unicode, and where they end.
const (
	latinAlphabets, latinEnd = 0x1d400, 0x1d6a4
	lettersOfAlphabet        = 52
	greekAlphabets, greekEnd = 0x1d6a8, 0x1d7ca
	greekOfAlphabet          = 58 // 25 capitals, ∇, 25 small letters, seven variants
	fullWidth, fullWidthEnd  = '！', '～'
)

// spellCharacter spells one character outside ASCII.
func spellCharacter(r rune) string {
	if spelling, ok := characters[r]; ok {
		return spelling
	}
	switch {
	case r == '＼':
		return string(r)
	case r >= fullWidth && r <= fullWidthEnd:
		return string(r - fullWidth + '!')
	case r >= latinAlphabets && r < latinEnd:
		if r = (r - latinAlphabets) % lettersOfAlphabet; r < 26 {
			return string('A' + r)
		}
		return string('a' + r - 26)
	case r >= greekAlphabets && r < greekEnd:
		switch r = (r - greekAlphabets) % greekOfAlphabet; {
		case r < 25:
			return spellCharacter('Α' + r)
		case r > 25 && r < 51:
			return spellCharacter('α' + r - 26)
		}
	case unicode.IsSpace(r):
		return " "
	case unicode.In(r, unicode.Cf, unicode.Variation_Selector): // zero width, marks of direction
		return ""
	case unicode.Is(unicode.Nd, r):
		return string('0' + digitOf(r))
	}
	return string(r)
}

// digitOf returns the value of a decimal digit of any script; Unicode has them in rows from 0 to 9.
func digitOf(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	return 0
}
