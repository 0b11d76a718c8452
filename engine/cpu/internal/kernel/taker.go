package kernel

// Taker takes memory from an arena and remembers the first error. After an error it returns empty
// arrays.
type Taker struct {
	Arena *Arena
	Err   error // the first error
}

// Float32 calls [Arena.Float32].
func (t *Taker) Float32(n int) (v []float32) {
	if t.Err == nil {
		v, t.Err = t.Arena.Float32(n)
	}
	return v
}

// Int32 calls [Arena.Int32].
func (t *Taker) Int32(n int) (v []int32) {
	if t.Err == nil {
		v, t.Err = t.Arena.Int32(n)
	}
	return v
}

// Matrix calls [Arena.Matrix].
func (t *Taker) Matrix(rows, cols int) (m Matrix) {
	if t.Err == nil {
		m, t.Err = t.Arena.Matrix(rows, cols)
	}
	return m
}
