package report

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trinity-go/trinity/internal/safetext"
)

// legend explains the columns of a comparison.
func (c *Comparison) legend() string {
	text := "final: the last evaluation; of other metrics the mean of the last tenth of the steps, at most ten. " +
		"±: 95 % confidence over seeds, by Student's t."
	if c.has(func(v *Compared) bool { return v.More != nil && v.More.Over == overTheRows }) {
		text += " (N rows): over the held-out rows that both runs answered."
	}
	if c.has(func(v *Compared) bool { return v.More != nil && v.More.Tells == "" }) {
		text += " One seed cannot tell a difference from chance, and few seeds that all agree cannot either."
	}
	if c.hasBest() {
		text += " at best: the best evaluation of each run; the best of many flatters."
	}
	return text
}

// has reports whether some value of the comparison is such.
func (c *Comparison) has(is func(*Compared) bool) bool {
	return slices.ContainsFunc(c.Metrics, func(m ComparedMetric) bool {
		return slices.ContainsFunc(m.Values, func(v *Compared) bool { return v != nil && is(v) })
	})
}

// hasBest reports whether the tables have a column for the best evaluations.
func (c *Comparison) hasBest() bool {
	return c.asked.AtBest && c.has(func(v *Compared) bool { return v.Best != nil })
}

// table is rows of text. Cells of names and settings are what users and runs have named.
type table struct {
	head  []string
	rows  [][]string
	named int // how many columns, from the left, hold names
}

// Print writes the comparison as tables of text.
func (c *Comparison) Print(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, of := range c.tables() {
		for _, row := range append([][]string{of.head}, of.rows...) {
			for i := range row {
				row[i] = safetext.Printable(row[i])
			}
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) { // an empty cell leaves spaces
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	lines := c.verdict()
	for i := range lines {
		lines[i] = safetext.Printable(lines[i])
	}
	_, err := fmt.Fprintln(w, strings.Join(slices.Concat(lines, []string{c.legend()}, c.Notes), "\n"))
	return err
}

// Markdown writes the comparison as tables of Markdown.
func (c *Comparison) Markdown(w io.Writer) error {
	var b strings.Builder
	for _, of := range c.tables() {
		for i, name := range of.head {
			of.head[i] = escaped(name)
		}
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(of.head, " | "), strings.Repeat("---|", len(of.head)))
		for _, row := range of.rows {
			for i := range of.named {
				row[i] = strings.ReplaceAll(code(row[i]), "|", `\|`)
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
		b.WriteString("\n")
	}
	for _, line := range slices.Concat(c.verdict(), []string{c.legend()}, c.Notes) {
		fmt.Fprintf(&b, "%s\n\n", escaped(line))
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// tables returns the table of the settings that differ, if any do, and that of each stage's metrics.
func (c *Comparison) tables() (all []table) {
	if len(c.Differences) > 0 {
		all = append(all, c.settings())
	}
	for _, m := range c.Metrics {
		if c.repeatsAccuracy(m) {
			continue
		}
		if title := strings.TrimSpace(m.Stage + " metric"); len(all) == 0 || all[len(all)-1].head[0] != title {
			t := table{head: []string{title, "runs of", "seeds", "first", "final"}, named: 2}
			if c.hasBest() {
				t.head = append(t.head, "at best")
			}
			if len(c.Groups) > 1 {
				t.head = append(t.head, "difference to "+c.Groups[0].Name)
			}
			all = append(all, t)
		}
		t := &all[len(all)-1]
		for i, v := range m.Values {
			if v == nil {
				continue
			}
			row := []string{m.Name, c.Groups[i].Name, fmt.Sprint(v.N), fmt.Sprintf("%.4g", v.First), v.Interval.text()}
			switch {
			case v.Best != nil && c.hasBest():
				row = append(row, v.Best.text())
			case c.hasBest():
				row = append(row, "")
			}
			if len(c.Groups) > 1 && i > 0 {
				row = append(row, v.more())
			} else if len(c.Groups) > 1 {
				row = append(row, "")
			}
			t.rows = append(t.rows, row)
		}
	}
	return all
}

// repeatsAccuracy reports whether a metric is a mean reward with the same values as the accuracy beside it.
func (c *Comparison) repeatsAccuracy(m ComparedMetric) bool {
	if !strings.Contains(m.Name, "reward/mean") {
		return false
	}
	accuracy := strings.Replace(m.Name, "reward/mean", "accuracy/mean", 1)
	return slices.ContainsFunc(c.Metrics, func(other ComparedMetric) bool {
		return other.Stage == m.Stage && other.Name == accuracy && reflect.DeepEqual(other.Values, m.Values)
	})
}

// settings returns the table of the settings that differ. Many groups are rows, few are columns.
func (c *Comparison) settings() table {
	t := table{head: []string{"setting"}}
	for _, g := range c.Groups {
		t.head = append(t.head, g.Name)
	}
	for _, d := range c.Differences {
		t.rows = append(t.rows, append([]string{d.Key}, d.Values...))
	}
	if len(c.Groups) > 4 && len(c.Groups) > len(c.Differences) {
		t = t.turned()
	}
	t.named = len(t.head)
	return t
}

// turned returns the table with rows as columns.
func (t table) turned() table {
	all := append([][]string{t.head}, t.rows...)
	out := make([][]string, len(t.head))
	for _, row := range all {
		for i, cell := range row {
			out[i] = append(out[i], cell)
		}
	}
	out[0][0] = "runs of"
	return table{head: out[0], rows: slices.Clone(out[1:])}
}

// text returns the mean with half of the interval.
func (v Interval) text() string {
	if v.High == nil {
		return fmt.Sprintf("%.4g", v.Mean)
	}
	return fmt.Sprintf("%.4g ± %.2g", v.Mean, *v.High-v.Mean)
}

// more returns the difference to the first group with the number of seeds that both have, unless
// these are all.
func (v *Compared) more() string {
	if v.More == nil {
		return "–"
	}
	text := fmt.Sprintf("%+.4g", v.More.Mean)
	if v.More.High != nil {
		text += fmt.Sprintf(" ± %.2g", *v.More.High-v.More.Mean)
	}
	switch {
	case v.More.Over == overTheRows:
		text += fmt.Sprintf(" (%d rows)", v.More.N)
	case v.More.N < v.N:
		text += fmt.Sprintf(" (of %d)", v.More.N)
	}
	if v.More.Tells == withinChance && v.More.Mean != 0 {
		text += ", within chance"
	}
	return text
}
