package dataset

import (
	"fmt"
)

// memory is a file whose rows are held as JSON text.
type memory struct {
	path  string
	unit  string // what rows are counted in: "line", or "row" for formats without lines
	text  []byte
	index []line // into text
}

// add appends a row. The text is copied.
func (m *memory) add(number int, data []byte) error {
	if len(data) > maxRow {
		return fmt.Errorf("%s: %w", m.at(number), errLong)
	}
	m.index = append(m.index, line{begin: int64(len(m.text)), size: int32(len(data)), number: int32(number)})
	m.text = append(m.text, data...)
	return nil
}

func (m *memory) len() int { return len(m.index) }

func (m *memory) row(i int) ([]byte, error) {
	l := m.index[i]
	return m.text[l.begin : l.begin+int64(l.size)], nil
}

func (m *memory) where(i int) string { return m.at(int(m.index[i].number)) }

func (m *memory) at(number int) string {
	if m.unit == "line" {
		return fmt.Sprintf("%s:%d", m.path, number)
	}
	return fmt.Sprintf("%s, row %d", m.path, number)
}
