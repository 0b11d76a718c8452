// Package rows holds the operators that prepare a taskset before the run: they filter, deduplicate
// and score its rows. Each operator has one file. Operators that Data-Juicer also has (Chen et al.
// 2024, arXiv:2309.02033) have its names and arguments.
//
// An operator writes its measurements to the statistics of every row, under Data-Juicer's names,
// even if it drops the row.
package rows

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
)

// TextKey holds the argument of operators that read one text of a row.
type TextKey struct {
	TextKey string `yaml:"text_key" doc:"field with the text; dots lead into nested objects; default: the first of target_fields, or text"`
}

// text returns the row's text.
func (k TextKey) text(row *trinity.TaskRow) (string, error) { return text(row, k.TextKey) }

// text returns the text at a key of the row.
func text(row *trinity.TaskRow, key string) (string, error) {
	v, err := field(row, key)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s: field %q is %s, want text", row.Where, key, kindOf(v))
	}
	return s, nil
}

// kindOf returns the kind of a value, for errors.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// field returns the value at a key of the row.
func field(row *trinity.TaskRow, key string) (any, error) {
	v, ok := (&trinity.Task{Row: row.Row}).Field(key)
	if !ok {
		return nil, fmt.Errorf("%s: no field %q in the row: name one that every row has", row.Where, key)
	}
	return v, nil
}

// Interval holds the arguments that change the range of any range filter.
type Interval struct {
	MinClosed bool `yaml:"min_closed_interval" doc:"the range includes its least value"`
	MaxClosed bool `yaml:"max_closed_interval" doc:"the range includes its greatest value"`
	Reversed  bool `yaml:"reversed_range" doc:"keep rows outside the range, and rows at ends that the range includes"`
}

func closed() Interval { return Interval{MinClosed: true, MaxClosed: true} }

// keeps reports whether a value is in the range, or outside of it if the range is reversed.
func (i Interval) keeps(v, low, high float64) bool {
	if i.Reversed {
		return v < low || v > high || v == low && i.MinClosed || v == high && i.MaxClosed
	}
	return (v > low || v == low && i.MinClosed) && (v < high || v == high && i.MaxClosed)
}

// ordered refuses an empty range.
func ordered(minName string, low float64, maxName string, high float64) error {
	if !(low <= high) {
		return fmt.Errorf("%s %g is more than %s %g", minName, low, maxName, high)
	}
	return nil
}

// keep returns the rows for which ok is true, in order.
func keep(rows []*trinity.TaskRow, ok func(*trinity.TaskRow) (bool, error)) ([]*trinity.TaskRow, error) {
	var kept []*trinity.TaskRow
	for _, r := range rows {
		good, err := ok(r)
		if err != nil {
			return nil, err
		}
		if good {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// measured writes a measure of each row's text to its statistics, and keeps the rows whose measure
// is in the range.
func (k TextKey) measured(rows []*trinity.TaskRow, stat string, measure func(string) float64, in Interval, low, high float64) (
	[]*trinity.TaskRow, error) {
	return keep(rows, func(r *trinity.TaskRow) (bool, error) {
		s, err := k.text(r)
		if err != nil {
			return false, err
		}
		v := measure(s)
		r.Stats[stat] = v
		return in.keeps(v, low, high), nil
	})
}

// words returns the parts of a text between blanks, tabs and line ends, without special characters
// around them.
func words(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\n' || r == '\t' }) {
		if w = strings.TrimFunc(w, special); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// special reports whether a character is neither a letter nor a combining mark.
func special(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }

// ratio returns part/whole, 0 if whole is 0.
func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// share returns the fraction of a text's characters for which is returns true.
func share(text string, is func(rune) bool) float64 {
	n, all := 0, 0
	for _, r := range text {
		all++
		if is(r) {
			n++
		}
	}
	return ratio(n, all)
}

// shingles returns the runs of n words, each as one text. Fewer than n words form one run.
func shingles(words []string, n int) []string {
	if len(words) <= n {
		return []string{strings.Join(words, " ")}
	}
	out := make([]string, 0, len(words)-n+1)
	for i := 0; i+n <= len(words); i++ {
		out = append(out, strings.Join(words[i:i+n], " "))
	}
	return out
}
