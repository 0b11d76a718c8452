package selector

import ()

func init() {
	Selectors.Register("sequential",
		"Takes the rows in the order of the dataset; after the last row it starts again.",
		func() Selector { return &sequential{} })
}

// sequential takes the rows in order, again and again.
//
// Unlike Trinity-RFT: a batch longer than the dataset begins again at row 0 as often as needed,
// because there it asks for rows that do not exist.
type sequential struct {
	options `yaml:",inline"`
	progress
}

// Start implements [Selector].
func (s *sequential) Start(d Dataset) error { return s.start(d) }

// Next implements [Selector].
func (s *sequential) Next(n int) ([]int, error) {
	first, err := s.take(n)
	if err != nil {
		return nil, err
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = int((first + int64(i)) % int64(s.rows))
	}
	return rows, nil
}
