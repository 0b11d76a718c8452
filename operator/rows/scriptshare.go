package rows

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("script_share_filter",
		"Keeps rows whose text has a share of its letters in the given scripts, such as Latin, Han or "+
			"Cyrillic, within the range. Statistic: script_share, 0 for a text without letters. It recognizes "+
			"scripts, not languages: for longer texts language_filter does.",
		func() trinity.TaskOperator { return &scriptShare{RatioRange: ratios(0.8, 1)} })
}

// scriptShare filters by the writing system.
type scriptShare struct {
	RatioRange `yaml:",inline"`
	Scripts    []string `yaml:"scripts" required:"name scripts, such as [Latin]" doc:"of the Unicode standard: Latin, Han, Hiragana, Arabic…"`
}

// Validate requires known scripts and a range.
func (f *scriptShare) Validate() error {
	for _, s := range f.Scripts {
		if _, ok := unicode.Scripts[s]; !ok {
			return fmt.Errorf("scripts: unknown script %q (known: %s)", s, strings.Join(slices.Sorted(maps.Keys(unicode.Scripts)), ", "))
		}
	}
	return f.RatioRange.Validate()
}

// Process implements trinity.TaskOperator.
func (f *scriptShare) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	var tables []*unicode.RangeTable
	for _, s := range f.Scripts {
		tables = append(tables, unicode.Scripts[s])
	}
	return f.within(rows, "script_share", func(text string) float64 {
		n, letters := 0, 0
		for _, r := range text {
			if unicode.IsLetter(r) {
				letters++
				if unicode.IsOneOf(tables, r) {
					n++
				}
			}
		}
		return ratio(n, letters)
	})
}
