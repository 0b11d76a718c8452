package kernel

import "unsafe"

// packTransposed packs rows [0, rows) of src, stored [rows, k], into one panel [k, 16], the missing rows zero.
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

// packRows packs columns [0, cols) of src, stored [k, cols], into one panel [k, 16], the missing columns zero.
func packRows(dst, src []float32, ld, cols, k int) {
	if cols == lanes {
		for i := range k {
			*(*[lanes]float32)(dst[i*lanes:]) = *(*[lanes]float32)(src[i*ld:])
		}
		return
	}
	for i := range k {
		n := copy(dst[i*lanes:(i+1)*lanes], src[i*ld:i*ld+cols])
		clear(dst[i*lanes+n : (i+1)*lanes])
	}
}

// packGroups packs rows [0, rows) of a left operand stored [k, rows] into groups of the tile's rows, [k, group] each; the
// last group's missing rows are whatever they were. It goes along the stored rows: across them, the lines of a wide
// matrix fall into the same few sets of a cache.
func (ks *kernels) packGroups(dst, src []float32, ld, rows, k int) {
	group := ks.rows
	whole := rows - rows%group
	for i := range k {
		row := src[i*ld : i*ld+rows]
		if whole > 0 {
			copyGroups(unsafe.Pointer(&dst[i*group]), unsafe.Pointer(&row[0]), group, whole/group, k*group*4)
		}
		if whole < rows {
			copy(dst[whole*k+i*group:], row[whole:])
		}
	}
}

// copyGroups copies groups of 6 or 12 floats (any other size slowly) from src to places stride bytes apart.
func copyGroups(dst, src unsafe.Pointer, group, groups, stride int) {
	for g := range groups {
		to, from := unsafe.Add(dst, g*stride), unsafe.Add(src, g*group*4)
		switch group {
		case 6:
			*(*[6]float32)(to) = *(*[6]float32)(from)
		case 12:
			*(*[12]float32)(to) = *(*[12]float32)(from)
		default:
			copy(unsafe.Slice((*float32)(to), group), unsafe.Slice((*float32)(from), group))
		}
	}
}

// packPanel packs panel j of op(b) [k, n], rows [k0, k0+kc) of it.
func (ks *kernels) packPanel(dst []float32, b Matrix, j, k0, kc int) {
	cols := min(lanes, b.Cols-j*lanes)
	if kc == 0 {
		return
	}
	if b.trans {
		ks.packTransposed(dst, b.Data[j*lanes*b.Stride+k0:], b.Stride, cols, kc)
		return
	}
	packRows(dst, b.Data[k0*b.Stride+j*lanes:], b.Stride, cols, kc)
}
