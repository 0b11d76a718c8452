package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// Colours of a terminal. Blue and yellow are apart for colour-blind people, too.
const (
	plain  = "\x1b[0m"
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	raised = "\x1b[34m" // the optimizer makes the token likelier
	lower  = "\x1b[33m" // … less likely
)

// Print writes the page as text. With tokens it adds a table of every token of every answer.
func (p *Page) Print(w io.Writer, coloured, tokens bool) error {
	style := func(code, text string) string {
		if !coloured || text == "" {
			return text
		}
		return code + text + plain
	}
	var out strings.Builder
	in := "of"
	if p.Step == 0 {
		in = "in"
	}
	fmt.Fprintf(&out, "%s %s %s: %s\n", style(bold, p.title()), in, safetext.Printable(p.Trace), p.summary())
	if mean, most, n := p.disagreement(); n > 0 {
		fmt.Fprintf(&out, "sampler and trainer disagree by %.3g nats a token, at most %.3g, over %d tokens\n", mean, most, n)
	}
	for _, g := range p.Groups {
		fmt.Fprintf(&out, "\n%s, explorer step %d\n%s\n", style(bold, "task "+safetext.Printable(g.Task)), g.ExploreStep,
			style(dim, lines(p.prompt(g.Answers[0]))))
		for _, line := range imagesIn(g) {
			fmt.Fprintln(&out, line)
		}
		if truth := g.Answers[0].Truth; truth != "" {
			fmt.Fprintf(&out, "right answer: %s\n", style(bold, lines(truth)))
		}
		for _, a := range g.Answers {
			p.answer(&out, a, style)
			if tokens {
				p.table(&out, a)
			}
		}
	}
	for _, f := range p.Failures {
		head, why := failed(f)
		fmt.Fprintf(&out, "\n%s %s\n", style(bold, head), why)
		if f.Question != "" {
			fmt.Fprintf(&out, "question: %s\n", lines(f.Question))
		}
		if f.Truth != "" {
			fmt.Fprintf(&out, "right answer: %s\n", lines(f.Truth))
		}
		if len(f.Sampled) > 0 {
			fmt.Fprintf(&out, "its last call had sampled: %s\n", lines(p.text(f.Sampled)))
		}
	}
	_, err := io.WriteString(w, out.String())
	return errors.Join(err, p.Damaged)
}

// counted returns a number with its noun, in the plural unless the number is 1.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// title names the train step.
func (p *Page) title() string {
	if p.Step == 0 {
		return "no train step is kept"
	}
	return fmt.Sprintf("train step %d", p.Step)
}

// summary counts the answers; without any, the failures.
func (p *Page) summary() string {
	if len(p.Failures) > 0 && len(p.Groups) == 0 {
		return fmt.Sprintf("no answers, and %s of explorer step %d, the newest with failures", lost(p.Failures), p.Failures[0].Step)
	}
	answers, rewarded, dropped, invalid, sum := 0, 0, 0, 0, 0.0
	for _, g := range p.Groups {
		for _, a := range g.Answers {
			answers++
			if a.Dropped != "" {
				dropped++
			}
			if a.Reward != nil {
				rewarded, sum = rewarded+1, sum+*a.Reward
			} else if a.Reason != "" {
				invalid++
			}
		}
	}
	text := counted(answers, "answer") + " to " + counted(len(p.Groups), "task")
	if rewarded > 0 {
		text += fmt.Sprintf(", mean reward %.3g", sum/float64(rewarded))
	}
	if invalid > 0 {
		text += fmt.Sprintf(", %d without a valid reward", invalid)
	}
	if dropped > 0 {
		text += fmt.Sprintf(", %d dropped before the update", dropped)
	}
	return text
}

// disagreement returns how far the log-probabilities of the sampler are from those of the trainer
// before its first optimizer step, in nats.
func (p *Page) disagreement() (mean, most float64, tokens int) {
	for _, g := range p.Groups {
		for _, a := range g.Answers {
			if len(a.Updates) == 0 || a.Updates[0].Update != 0 || len(a.Logprobs) != len(a.Updates[0].Now) {
				continue
			}
			for t, learned := range a.Mask {
				if learned {
					d := math.Abs(float64(a.Updates[0].Now[t] - a.Logprobs[t]))
					mean, most, tokens = mean+d, max(most, d), tokens+1
				}
			}
		}
	}
	return mean / float64(max(1, tokens)), most, tokens
}

// answer writes what is known of an answer in a line, and its text.
func (p *Page) answer(out *strings.Builder, a *Answer, style func(code, text string) string) {
	says := mark(a.verdict(), style)
	if says != "" {
		says += ", "
	}
	fmt.Fprintf(out, "  %s: %s%s\n    ", style(bold, a.name()), says, a.facts())
	for _, t := range a.places(int(a.PromptTokens), len(a.Tokens)) {
		out.WriteString(style(a.colour(t), strings.ReplaceAll(lines(p.tokenText(a.Tokens[t])), "\n", "\n    ")))
	}
	out.WriteString("\n")
}

// name returns which of its group's answers this is.
func (a *Answer) name() string {
	if a.Turn > 0 {
		return fmt.Sprintf("run %d, turn %d", a.Run, a.Turn)
	}
	return fmt.Sprintf("run %d", a.Run)
}

// facts returns what is known of an answer beside its tokens, in a line.
func (a *Answer) facts() string {
	text := scoreOf(a.Reward, a.Reason)
	if advantage, ok := meanWhere(a.Advantages, a.Mask); ok {
		text += fmt.Sprintf(", advantage %+.3g", advantage)
	}
	text += fmt.Sprintf(", %s, version %d", counted(int(a.ResponseTokens), "token"), a.ModelVersion)
	if a.Truncated != "" {
		text += ", " + a.Truncated
	}
	switch learned, clipped := a.learned(); {
	case a.Dropped != "":
		text += ", dropped by " + a.Dropped
	case len(a.Updates) == 0:
		text += ", nothing learned"
	case clipped > 0:
		text += fmt.Sprintf(", %d of %d tokens clipped", clipped, learned)
	}
	return text
}

// colour returns the colour of a token: which way the first optimizer step moves its probability.
func (a *Answer) colour(t int) string {
	if len(a.Updates) > 0 && t < len(a.Updates[0].DLogprob) {
		switch d := a.Updates[0].DLogprob[t]; {
		case d < 0: // the loss falls when the token becomes likelier
			return raised
		case d > 0:
			return lower
		}
	}
	return dim
}

// learned counts the tokens that training learns, and those that the last optimizer step leaves as
// they are although their advantage is not 0.
func (a *Answer) learned() (tokens, clipped int) {
	var derivatives []float32
	if n := len(a.Updates); n > 0 {
		derivatives = a.Updates[n-1].DLogprob
	}
	return learnedFrom(a.Mask, a.Advantages, derivatives)
}

// learnedFrom counts the tokens that training learns from, and those that an optimizer step clipped: the
// advantage is not 0, and the derivative is. Both may lack.
func learnedFrom(mask []bool, advantages, derivatives []float32) (tokens, clipped int) {
	for t, m := range mask {
		if !m {
			continue
		}
		tokens++
		if t < len(derivatives) && t < len(advantages) && advantages[t] != 0 && derivatives[t] == 0 {
			clipped++
		}
	}
	return tokens, clipped
}

// table writes a line for each token and optimizer step.
func (p *Page) table(out *strings.Builder, a *Answer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\tplace\ttoken\tupdate\tsampled\tnow\tratio\tadvantage\tderivative\treference\tentropy\tvalue\t text\n")
	for _, i := range a.places(int(a.PromptTokens), len(a.Tokens)) {
		for n := range max(1, len(a.Updates)) {
			update, now, derivative := "", []float32(nil), []float32(nil)
			if n < len(a.Updates) {
				update, now, derivative = strconv.FormatInt(a.Updates[n].Update, 10), a.Updates[n].Now, a.Updates[n].DLogprob
			}
			ratio := ""
			if before := a.before(); i < len(now) && i < len(before) && a.Mask[i] {
				ratio = fmt.Sprintf("%.4f", math.Exp(float64(now[i]-before[i])))
			}
			fmt.Fprintf(t, "\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t %s\n", i, a.Tokens[i], update, at(a.Logprobs, i), at(now, i), ratio,
				at(a.Advantages, i), at(derivative, i), at(a.RefLogprobs, i), at(a.Entropies, i), at(a.Values, i),
				safetext.Printable(p.tokenText(a.Tokens[i])))
		}
	}
	t.Flush()
}

// before returns the log-probabilities in the denominator of ratios.
func (a *Answer) before() []float32 {
	if len(a.OldLogprobs) > 0 {
		return a.OldLogprobs
	}
	return a.Logprobs
}

func at(v []float32, i int) string {
	if i >= len(v) {
		return "-"
	}
	return strconv.FormatFloat(float64(v[i]), 'g', 5, 32)
}

// meanWhere returns the mean of v where the mask is true.
func meanWhere(v []float32, mask []bool) (float64, bool) {
	sum, n := 0.0, 0
	for t, m := range mask {
		if m && t < len(v) {
			sum, n = sum+float64(v[t]), n+1
		}
	}
	return sum / float64(max(1, n)), n > 0
}

// prompt returns what the policy was asked.
func (p *Page) prompt(a *Answer) string {
	if a.Prompt != "" {
		return a.Prompt
	}
	var tokens []int32
	for _, t := range a.places(0, min(int(a.PromptTokens), len(a.Tokens))) {
		tokens = append(tokens, a.Tokens[t])
	}
	return p.text(tokens)
}

// tokenText returns the text of a token, or its number if the trace has lost its text.
func (p *Page) tokenText(token int32) string {
	if text, ok := p.texts[token]; ok {
		return text
	}
	return fmt.Sprintf("‹%d›", token)
}

func (p *Page) text(tokens []int32) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteString(p.tokenText(token))
	}
	return b.String()
}

// JSON writes one object per answer, and one with the failures if there are any.
func (p *Page) JSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, g := range p.Groups {
		for _, a := range g.Answers {
			texts := make([]string, len(a.Tokens))
			for t, token := range a.Tokens {
				texts[t] = p.texts[token]
			}
			if err := out.Encode(struct {
				Step int64 `json:"step"`
				*Answer
				Texts []string `json:"texts"`
			}{p.Step, a, texts}); err != nil {
				return fmt.Errorf("%s: %w", a.ID, err)
			}
		}
	}
	if len(p.Failures) > 0 {
		if err := out.Encode(struct {
			Step     int64           `json:"step,omitempty"`
			Failures []trace.Failure `json:"failures"`
		}{p.Step, p.Failures}); err != nil {
			return err
		}
	}
	return p.Damaged
}

// lines is [safetext.Printable] that keeps the lines of a text.
func lines(text string) string {
	parts := strings.Split(text, "\n")
	for i, part := range parts {
		parts[i] = safetext.Printable(part)
	}
	return strings.Join(parts, "⏎\n")
}
