package kernel

import "fmt"

// Matrix is a view of a row-major [Rows, Cols] matrix: element (i, j) is Data[i*Stride+j], or of
// the transpose of one (see [Matrix.T]).
type Matrix struct {
	Data       []float32
	Rows, Cols int
	Stride     int // elements from one stored row to the next
	trans      bool
	packed     *Packed // whose panels Data are (see [Packed.Weights]); nil if Data is row-major
}

// NewMatrix views the first rows*cols elements of data as a dense [rows, cols] matrix.
func NewMatrix(data []float32, rows, cols int) Matrix {
	return Matrix{Data: data, Rows: rows, Cols: cols, Stride: cols}
}

// T returns the transpose of m, which shares its storage. Only [MatMul]'s operands may be
// transposed.
func (m Matrix) T() Matrix {
	m.Rows, m.Cols, m.trans = m.Cols, m.Rows, !m.trans
	return m
}

// Row returns row i of m, [Cols], which shares its storage. m must not be a transpose.
func (m Matrix) Row(i int) []float32 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols]
}

// RowRange returns rows [from, to) of m, which share its storage. m must not be a transpose. In panels, from is a
// multiple of 16.
func (m Matrix) RowRange(from, to int) Matrix {
	m.Data = m.Data[min(from*m.Stride, len(m.Data)):]
	m.Rows = to - from
	return m
}

// ColRange returns columns [from, to) of m, which share its storage. m must not be a transpose.
func (m Matrix) ColRange(from, to int) Matrix {
	m.Cols = to - from
	if m.packed != nil {
		from *= lanes
	}
	m.Data = m.Data[min(from, len(m.Data)):]
	return m
}

// check panics unless m's data covers its shape, because the assembly does not check bounds.
func (m Matrix) check(what string) {
	rows, cols := m.Rows, m.Cols
	if m.trans {
		rows, cols = cols, rows
	}
	if m.packed != nil { // a row of 16 · Stride elements is a panel
		m.Stride, rows, cols = m.Stride*lanes, (rows+lanes-1)/lanes, cols*lanes
	}
	switch {
	case rows < 0 || cols < 0 || m.Stride < cols && rows > 1:
		panic(fmt.Sprintf("kernel: %s: shape [%d, %d] with row stride %d", what, rows, cols, m.Stride))
	case rows > 0 && cols > 0 && len(m.Data) < (rows-1)*m.Stride+cols:
		panic(fmt.Sprintf("kernel: %s: shape [%d, %d], row stride %d, needs %d elements and has %d",
			what, rows, cols, m.Stride, (rows-1)*m.Stride+cols, len(m.Data)))
	}
}

// checkShape panics unless m is an untransposed [rows, cols] matrix that its data covers.
func (m Matrix) checkShape(what string, rows, cols int) {
	if m.Rows != rows || m.Cols != cols || m.trans {
		panic(fmt.Sprintf("kernel: %s: shape [%d, %d] (transposed %t), want [%d, %d]", what, m.Rows, m.Cols, m.trans, rows, cols))
	}
	m.check(what)
}

// checkLen panics unless a vector has exactly n elements.
func checkLen(what string, v []float32, n int) {
	if len(v) != n {
		panic(fmt.Sprintf("kernel: %s: %d elements, want %d", what, len(v), n))
	}
}
