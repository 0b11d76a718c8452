package dataset

// line is where a row is in a text.
type line struct {
	begin  int64
	size   int32 // bytes, at most maxRow
	number int32 // from 1; blank lines count
}

// memory is a JSON document, held as text, whose elements are rows.
type memory struct {
	path  string
	text  []byte
	index []line // into text
}

func (m *memory) len() int { return len(m.index) }

func (m *memory) row(i int) ([]byte, error) {
	l := m.index[i]
	return m.text[l.begin : l.begin+int64(l.size)], nil
}

func (m *memory) where(i int) string { return place(m.path, "line", int(m.index[i].number)) }
