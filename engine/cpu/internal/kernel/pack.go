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

// packRows packs columns [0, cols) of src, stored [k, cols], into one panel [k, 16]. Missing
// columns are zero.
func packRows(dst, src []float32, ld, cols, k int) {
	if cols == lanes {
		for i := range k {
			to, from := unsafe.Pointer((*[lanes]float32)(dst[i*lanes:])), unsafe.Pointer((*[lanes]float32)(src[i*ld:]))
			copyPairs4(to, from)
			copyPairs4(unsafe.Add(to, 32), unsafe.Add(from, 32))
		}
		return
	}
	for i := range k {
		n := copy(dst[i*lanes:(i+1)*lanes], src[i*ld:i*ld+cols])
		clear(dst[i*lanes+n : (i+1)*lanes])
	}
}

// packGroups packs rows [0, rows) of a left operand stored [k, rows] into groups of the tile's
// rows, [k, group] each. It does not write the last group's missing rows. It reads along the stored
// rows, because across them the lines of a wide matrix fall into the same few sets of a cache.
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

// copyGroups copies groups of 6 or 12 floats (any other size slowly) from src to places stride
// bytes apart.
func copyGroups(dst, src unsafe.Pointer, group, groups, stride int) {
	for g := range groups {
		to, from := unsafe.Add(dst, g*stride), unsafe.Add(src, g*group*4)
		switch group {
		case 6:
			copyPairs3(to, from)
		case 12:
			copyPairs3(to, from)
			copyPairs3(unsafe.Add(to, 24), unsafe.Add(from, 24))
		default:
			copy(unsafe.Slice((*float32)(to), group), unsafe.Slice((*float32)(from), group))
		}
	}
}

// copyPairs3 copies 6 floats. An assignment of arrays would call memmove.
func copyPairs3(dst, src unsafe.Pointer) {
	d, s := (*[3]uint64)(dst), (*[3]uint64)(src)
	a, b, c := s[0], s[1], s[2]
	d[0], d[1], d[2] = a, b, c
}

// copyPairs4 copies 8 floats.
func copyPairs4(dst, src unsafe.Pointer) {
	d, s := (*[4]uint64)(dst), (*[4]uint64)(src)
	a, b, c, e := s[0], s[1], s[2], s[3]
	d[0], d[1], d[2], d[3] = a, b, c, e
}

// packPanel packs panel j of op(b) [k, n], rows [k0, k0+kc) of it.
func (ks *kernels) packPanel(dst []float32, b Matrix, j, k0, kc int) {
	cols := min(lanes, b.Cols-j*lanes)
	switch {
	case kc == 0:
	case b.packed != nil && b.trans:
		copy(dst[:kc*lanes], b.Data[(j*b.Stride+k0)*lanes:])
	case b.packed != nil:
		ks.turnPanel(dst, b, j, k0, kc)
	case b.trans:
		ks.packTransposed(dst, b.Data[j*lanes*b.Stride+k0:], b.Stride, cols, kc)
	default:
		packRows(dst, b.Data[k0*b.Stride+j*lanes:], b.Stride, cols, kc)
	}
}
