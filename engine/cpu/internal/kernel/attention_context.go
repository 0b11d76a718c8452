package kernel

// context holds the key and value rows of one head that the queries of one segment may see: those
// of the prefixes, from the first on, then the segment's own.
type context struct {
	k, v     Matrix // [rows, HeadDim] of all segments
	segments []Segment
	own      int // segment of the queries
	before   int // tokens of the prefixes
}

// beforeEach returns the number of tokens before the first of each segment.
func beforeEach(segments []Segment) []int {
	before := make([]int, len(segments))
	for i, s := range segments {
		if s.Prefix >= 0 {
			before[i] = before[s.Prefix] + segments[s.Prefix].Len
		}
	}
	return before
}

// eachRun cuts tokens [from, from+n), counted from the first prefix's first, where segments end. It
// calls do for each part, the last first: tokens from+begin to from+begin+count−1 are in row and the rows
// after it.
func (c *context) eachRun(from, n int, do func(begin, count, row int)) {
	first := c.before
	for s := c.own; n > 0; {
		if at := max(0, first-from); at < n {
			do(at, n-at, c.segments[s].Start+from+at-first)
			n = at
		}
		if s = c.segments[s].Prefix; s >= 0 {
			first -= c.segments[s].Len
		}
	}
}

// packTransposed packs tokens [from, from+n) of m, which is k or v, into panels of 16 tokens,
// [depth, 16] each. Missing tokens of the last panel are zero.
func (c *context) packTransposed(ks *kernels, dst []float32, m Matrix, from, n, depth int) {
	clear(dst[n/lanes*lanes*depth : roundUp(n)*depth])
	c.eachRun(from, n, func(at, count, row int) {
		for end := at + count; at < end; {
			lane := at % lanes
			rows := min(lanes-lane, end-at)
			part, panel := m.RowRange(row, row+rows), dst[(at-lane)*depth:(at-lane+lanes)*depth]
			if lane == 0 && (rows == lanes || at+rows == n) {
				ks.packTransposed(panel, part.Data, part.Stride, rows, depth)
			} else {
				for r := range rows {
					for i, v := range part.Row(r) {
						panel[i*lanes+lane+r] = v
					}
				}
			}
			at, row = at+rows, row+rows
		}
	})
}

// packRows packs tokens [from, from+n) of m, which is k or v, into panels of 16 columns, [n, 16]
// each. Missing columns of the last panel are zero.
func (c *context) packRows(ks *kernels, dst []float32, m Matrix, from, n, cols int) {
	c.eachRun(from, n, func(at, count, row int) {
		ks.packRows(dst[at*lanes:], m.Data[row*m.Stride:], m.Stride, cols, count, n*lanes)
	})
}
