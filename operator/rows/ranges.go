package rows

import (
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// LengthRange holds the arguments of filters by a number of characters.
type LengthRange struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Min      int `yaml:"min_len" doc:"characters"`
	Max      int `yaml:"max_len" doc:"characters"`
}

func fromTen() LengthRange {
	return LengthRange{TextKey: TextKey{"text"}, Interval: closed(), Min: 10, Max: math.MaxInt}
}

// Validate requires a range that is not empty.
func (f *LengthRange) Validate() error {
	return ordered("min_len", float64(f.Min), "max_len", float64(f.Max))
}

func (f *LengthRange) within(rows []*trinity.TaskRow, stat string, measure func(string) float64) ([]*trinity.TaskRow, error) {
	return f.measured(rows, stat, measure, f.Interval, float64(f.Min), float64(f.Max))
}

// RatioRange holds the arguments of filters by a share of the text.
type RatioRange struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Min      float64 `yaml:"min_ratio" doc:"least ratio"`
	Max      float64 `yaml:"max_ratio" doc:"greatest ratio"`
}

func ratios(least, most float64) RatioRange {
	return RatioRange{TextKey: TextKey{"text"}, Interval: closed(), Min: least, Max: most}
}

// Validate requires a range that is not empty.
func (f *RatioRange) Validate() error {
	return ordered("min_ratio", f.Min, "max_ratio", f.Max)
}

func (f *RatioRange) within(rows []*trinity.TaskRow, stat string, measure func(string) float64) ([]*trinity.TaskRow, error) {
	return f.measured(rows, stat, measure, f.Interval, f.Min, f.Max)
}

// Repetition holds the arguments of filters by repeated runs.
type Repetition struct {
	RatioRange `yaml:",inline"`
	Length     int `yaml:"rep_len" range:"[1,)" doc:"length of a run"`
}

func repetition() Repetition { return Repetition{RatioRange: ratios(0, 0.5), Length: 10} }

// repeated returns the share of the most frequent repeated runs in all runs. At most most(d) of d
// different runs count.
func repeated(runs []string, most func(different int) int) float64 {
	times := map[string]int{}
	for _, run := range runs {
		times[run]++
	}
	var again []int
	for _, n := range times {
		if n > 1 {
			again = append(again, n)
		}
	}
	slices.SortFunc(again, func(a, b int) int { return b - a })
	sum := 0
	for _, n := range again[:min(len(again), most(len(times)))] {
		sum += n
	}
	return ratio(sum, len(runs))
}
