package kernel

// rowPair is the concatenation of the rows of two matrices.
type rowPair struct{ prefix, own Matrix }

// row returns row j of the concatenation.
func (p rowPair) row(j int) []float32 {
	if j < p.prefix.Rows {
		return p.prefix.Row(j)
	}
	return p.own.Row(j - p.prefix.Rows)
}

// run returns how many of the rows [j, j+n) lie in the same matrix as row j, and that matrix from
// row j on.
func (p rowPair) run(j, n int) (int, Matrix) {
	if j < p.prefix.Rows {
		n = min(n, p.prefix.Rows-j)
		return n, p.prefix.RowRange(j, j+n)
	}
	j -= p.prefix.Rows
	return n, p.own.RowRange(j, j+n)
}

// packPairTransposed packs rows [from, from+n) of p, each of depth elements, into panels of 16
// rows, [depth, 16] each. Missing rows of the last panel are zero.
func (ks *kernels) packPairTransposed(dst []float32, p rowPair, from, n, depth int) {
	for j := 0; j < n; j += lanes {
		panel := dst[j*depth : (j+lanes)*depth]
		rows := min(lanes, n-j)
		if count, m := p.run(from+j, rows); count == rows {
			ks.packTransposed(panel, m.Data, m.Stride, rows, depth)
			continue
		}
		clear(panel)
		for r := range rows {
			for i, v := range p.row(from + j + r) {
				panel[i*lanes+r] = v
			}
		}
	}
}

// packPairRows packs rows [from, from+n) of p, each of cols elements, into panels of 16 columns,
// [n, 16] each. Missing columns of the last panel are zero.
func packPairRows(dst []float32, p rowPair, from, n, cols int) {
	for c := 0; c < cols; c += lanes {
		panel := dst[c*n:]
		width := min(lanes, cols-c)
		for j := 0; j < n; {
			count, m := p.run(from+j, n-j)
			packRows(panel[j*lanes:], m.Data[c:], m.Stride, width, count)
			j += count
		}
	}
}
