package selector

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity"
)

func init() {
	Selectors.Register("offline_easy2hard",
		"Takes the rows from the highest to the lowest value of feature_keys, such as the pass rate of a "+
			"reference model, and then starts again.",
		func() Selector { return &easy2hard{} })
}

// easy2hard sorts rows by the numbers at feature_keys, highest first. The first key decides,
// further keys break ties, and among equal rows the later one comes first, as in Trinity-RFT.
type easy2hard struct {
	options `yaml:",inline"`
	progress

	order []int
}

// Start implements [Selector]. It reads every row once.
func (s *easy2hard) Start(d Dataset) error {
	if len(s.FeatureKeys) == 0 {
		return errors.New("selector offline_easy2hard sorts by data_selector.feature_keys: name at least one key")
	}
	if err := s.start(d); err != nil {
		return err
	}
	features := make([][]float64, d.Len())
	s.order = make([]int, d.Len())
	for i := range features {
		row, err := d.Row(i)
		if err != nil {
			return err
		}
		if features[i], err = readFeatures(row, s.FeatureKeys); err != nil {
			return fmt.Errorf("selector offline_easy2hard: row %d: %w", i, err)
		}
		s.order[i] = i
	}
	slices.SortFunc(s.order, func(a, b int) int {
		return cmp.Or(slices.Compare(features[b], features[a]), cmp.Compare(b, a))
	})
	return nil
}

// Next implements [Selector].
func (s *easy2hard) Next(n int) ([]int, error) {
	first, err := s.take(n)
	if err != nil {
		return nil, err
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = s.order[(first+int64(i))%int64(s.rows)]
	}
	return rows, nil
}

// readFeatures returns the numbers at the keys of a row.
func readFeatures(row map[string]any, keys []string) ([]float64, error) {
	task := trinity.Task{Row: row}
	out := make([]float64, len(keys))
	for i, key := range keys {
		if _, ok := task.Field(key); !ok {
			return nil, fmt.Errorf("the row has no %q, which feature_keys names", key)
		}
		text, _ := task.Text(key)              // "" for null
		f, err := strconv.ParseFloat(text, 64) // text formats such as CSV hold numbers as text
		if err != nil || math.IsNaN(f) {
			return nil, fmt.Errorf("%s is %.40q, want a number", key, text)
		}
		out[i] = f
	}
	return out, nil
}
