package modelfile

import "testing"

func TestAddProduct(t *testing.T) {
	dst := []float32{1, 2, 3, 4, 5, 6}
	addProduct(dst, []float32{1, 2, 3, 4}, []float32{1, 0, 1, 0, 1, 1}, 0.5, 2, 2, 3)
	for i, want := range []float32{1 + 0.5, 2 + 1, 3 + 1.5, 4 + 1.5, 5 + 2, 6 + 3.5} {
		if dst[i] != want {
			t.Errorf("element %d is %v, want %v", i, dst[i], want)
		}
	}
}
