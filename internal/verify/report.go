package verify

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Report is the result of a comparison.
type Report struct {
	Model    string   `json:"model"`
	Against  string   `json:"against"`
	Used     []string `json:"used"`     // the model and the forms of request that served
	Warnings []string `json:"warnings"` // facts that make the comparison weaker

	Sequences int `json:"sequences"`
	Differences
	Greedy       float64      `json:"greedy_share"` // of GreedyTokens: the share at which the most likely tokens agree
	GreedyTokens int          `json:"greedy_tokens"`
	Samples      []SampleTest `json:"samples"`

	Checks []Check `json:"checks"`
	Agree  bool    `json:"agree"` // all checks hold
}

// Check is a figure with a limit.
type Check struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least"` // the limit is a lower bound, not an upper bound
	OK      bool    `json:"ok"`
}

// check compares the figures with their limits. The sample tests share the significance
// (Bonferroni).
func (r *Report) check(l Limits) {
	r.Agree = true
	add := func(c Check) {
		c.OK = c.Value <= c.Limit
		if c.AtLeast {
			c.OK = c.Value >= c.Limit
		}
		r.Agree = r.Agree && c.OK
		r.Checks = append(r.Checks, c)
	}
	if r.Tokens > 0 {
		add(Check{Name: "mean |difference|, nats", Value: r.MeanAbs, Limit: l.Mean})
		if l.Max > 0 {
			add(Check{Name: "largest |difference|, nats", Value: r.Max, Limit: l.Max})
		}
		add(Check{Name: "share of ratios outside 0.8 to 1.25", Value: r.Ratio, Limit: l.Ratio})
	}
	if r.GreedyTokens > 0 {
		add(Check{Name: "share of equal greedy tokens", Value: r.Greedy, Limit: l.Greedy, AtLeast: true})
	}
	for _, s := range r.Samples {
		add(Check{Name: "p, " + s.Name, Value: s.P, Limit: l.Significance / float64(len(r.Samples)), AtLeast: true})
	}
}

// Print writes the report for people: figures, then the checks.
func (r *Report) Print(out io.Writer) error {
	fmt.Fprintf(out, "model     %s\nagainst   %s\n", r.Model, r.Against)
	if len(r.Used) > 0 {
		fmt.Fprintf(out, "by        %s\n", strings.Join(r.Used, "; "))
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(out, "warning   %s\n", w)
	}
	if r.Tokens > 0 {
		fmt.Fprintf(out, "compared  %d tokens of %d sequences, theirs − ours in nats: mean %s, |·| p50 %s, p99 %s, largest %s; ",
			r.Tokens, r.Sequences, digits(r.Mean), digits(r.P50), digits(r.P99), digits(r.Max))
		fmt.Fprintf(out, "KL estimates k1 %s, k3 %s over %d tokens\n", digits(r.K1), digits(r.K3), r.KLTokens)
	}
	if r.GreedyTokens > 0 {
		fmt.Fprintf(out, "greedy    %d tokens\n", r.GreedyTokens)
	}
	for _, s := range r.Samples {
		fmt.Fprintf(out, "samples   %s: %s\n", s.Name, s.describe())
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ncheck\tvalue\tlimit\tverdict")
	for _, c := range r.Checks {
		relation, verdict := "≤", "agrees"
		if c.AtLeast {
			relation = "≥"
		}
		if !c.OK {
			verdict = "DISAGREES"
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\n", c.Name, digits(c.Value), relation, digits(c.Limit), verdict)
	}
	return w.Flush()
}

func (s *SampleTest) describe() string {
	if s.Degrees == 0 && s.Prompts == 0 {
		return fmt.Sprintf("%d tokens, z %.2f", s.Draws, s.Statistic)
	}
	text := fmt.Sprintf("%d draws of %d prompts, χ² %.1f of %d degrees of freedom", s.Draws, s.Prompts, s.Statistic, s.Degrees)
	if s.Outside > 0 {
		text += fmt.Sprintf(", %d outside of the nucleus", s.Outside)
	}
	return text
}

func digits(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
