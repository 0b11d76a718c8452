package kernel

// Taker takes memory from an arena until that fails; what it gives afterwards is empty.
type Taker struct {
	Arena *Arena
	Err   error // the first failure
}

// Float32 is [Arena.Float32].
func (t *Taker) Float32(n int) (v []float32) {
	if t.Err == nil {
		v, t.Err = t.Arena.Float32(n)
	}
	return v
}

// Int32 is [Arena.Int32].
func (t *Taker) Int32(n int) (v []int32) {
	if t.Err == nil {
		v, t.Err = t.Arena.Int32(n)
	}
	return v
}

// Matrix is [Arena.Matrix].
func (t *Taker) Matrix(rows, cols int) (m Matrix) {
	if t.Err == nil {
		m, t.Err = t.Arena.Matrix(rows, cols)
	}
	return m
}
