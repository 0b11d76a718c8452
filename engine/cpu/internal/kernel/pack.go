package kernel

import "unsafe"

// packTransposed packs rows [0, rows) of src, stored [rows, k], into one panel [k, 16]. Missing
// rows are zero.
func (ks *kernels) packTransposed(dst, src []float32, ld, rows, k int) {
	done := 0
	if rows == lanes {
		if done = k &^ 7; done > 0 {
			ks.transpose(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), ld, done)
		}
	} else {
		clear(dst[:k*lanes])
	}
	for r := range rows {
		for i := done; i < k; i++ {
			dst[i*lanes+r] = src[r*ld+i]
		}
	}
}

// packRows packs columns [0, cols) of src, stored [k, cols], into panels of 16 columns, [k, 16] each,
// the rows of a panel from dst on and the panels stride floats apart. Missing columns of the last one
// are zero. It reads along the stored rows, because across them the lines of a wide matrix fall into
// the same few sets of a cache.
func (ks *kernels) packRows(dst, src []float32, ld, cols, k, stride int) {
	if k == 0 {
		return
	}
	whole := cols / lanes
	if whole > 0 {
		ks.dealPanel(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), ld*4, k, whole, stride*4)
	}
	if left := cols % lanes; left > 0 {
		for i := range k {
			to := dst[whole*stride+i*lanes:][:lanes]
			clear(to[copy(to, src[i*ld+whole*lanes:][:left]):])
		}
	}
}

// packGroups packs rows [0, rows) of a left operand stored [k, rows] into groups of the tile's
// rows, [k, group] each, reading as packRows does. It does not write the last group's missing rows.
func (ks *kernels) packGroups(dst, src []float32, ld, rows, k int) {
	whole := rows / ks.rows
	if whole > 0 && k > 0 {
		ks.dealTile(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), ld*4, k, whole, k*ks.rows*4)
	}
	if first := whole * ks.rows; first < rows {
		for i := range k {
			copy(dst[first*k+i*ks.rows:], src[i*ld+first:i*ld+rows])
		}
	}
}

// packPanels packs panels [from, to) of op(b), rows [k0, k0+kc) of it.
func (ks *kernels) packPanels(dst []float32, b Matrix, from, to, k0, kc int) {
	if b.packed == nil && !b.trans {
		ks.packRows(dst, b.Data[min(k0*b.Stride+from*lanes, len(b.Data)):], b.Stride, min(to*lanes, b.Cols)-from*lanes, kc, kc*lanes)
		return
	}
	for j := from; j < to && kc > 0; j++ {
		panel := dst[(j-from)*kc*lanes:]
		switch {
		case b.packed == nil:
			ks.packTransposed(panel, b.Data[j*lanes*b.Stride+k0:], b.Stride, min(lanes, b.Cols-j*lanes), kc)
		case b.trans:
			copy(panel[:kc*lanes], b.Data[(j*b.Stride+k0)*lanes:])
		default:
			ks.turnPanel(panel, b, j, k0, kc)
		}
	}
}
