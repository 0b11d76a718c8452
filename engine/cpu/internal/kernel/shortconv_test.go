package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// convCase is segments of rows with a convolution.
type convCase struct {
	segments       []Segment
	rows           int
	channels, taps int
}

// convCases have stems that are shorter than the taps reach, and branches of them.
func convCases() []convCase {
	cases := []convCase{
		{[]Segment{{0, 9, -1}}, 9, 5, 3},
		{[]Segment{{0, 1, -1}, {1, 1, 0}, {2, 30, 1}, {32, 1, 0}, {33, 40, -1}}, 73, 33, 4},
		{[]Segment{{0, 70, -1}, {70, 0, 0}, {70, 3, 1}, {73, 50, 0}}, 123, 300, 3},
		{[]Segment{{0, 3, -1}, {3, 2, 0}}, 5, 16, 1},
	}
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 4))
		c := convCase{channels: 20 + 60*int(seed), taps: 2 + int(seed)}
		for i := range 8 {
			s := Segment{Start: c.rows, Len: 1 + r.IntN([]int{2, 20}[r.IntN(2)]), Prefix: r.IntN(i+1) - 1}
			c.segments, c.rows = append(c.segments, s), c.rows+s.Len
		}
		cases = append(cases, c)
	}
	return cases
}

// path returns the rows of the tokens up to row i, its own included.
func (c convCase) path(i int) (rows []int) {
	s := slices.IndexFunc(c.segments, func(s Segment) bool { return i >= s.Start && i < s.Start+s.Len })
	for last := i; s >= 0; s = c.segments[s].Prefix {
		if last < 0 {
			last = c.segments[s].Start + c.segments[s].Len - 1
		}
		for ; last >= c.segments[s].Start; last-- {
			rows = append(rows, last)
		}
		last = -1
	}
	slices.Reverse(rows)
	return rows
}

// reference returns out in float64, and the gradients of Σ out·dout.
func (c convCase) reference(bcx, weight, dout []float64) (out, dbcx, dweight []float64) {
	n := c.channels
	out, dbcx, dweight = make([]float64, c.rows*n), make([]float64, len(bcx)), make([]float64, len(weight))
	for i := range c.rows {
		path := c.path(i)
		for h := range n {
			sum, d := 0.0, dout[i*n+h]*bcx[i*3*n+n+h]
			for j := range c.taps {
				at := len(path) - c.taps + j
				if at < 0 {
					continue
				}
				row := path[at] * 3 * n
				b, x, w := bcx[row+h], bcx[row+2*n+h], weight[h*c.taps+j]
				sum += w * b * x
				dbcx[row+h] += d * w * x
				dbcx[row+2*n+h] += d * w * b
				dweight[h*c.taps+j] += d * b * x
			}
			out[i*n+h] = sum * bcx[i*3*n+n+h]
			dbcx[i*3*n+n+h] = dout[i*n+h] * sum
		}
	}
	return out, dbcx, dweight
}

// data returns B, C and x, the weight and dout. Matrices have slack.
func (c convCase) data() (bcx Matrix, weight []float32, dout Matrix) {
	r := rand.New(rand.NewPCG(uint64(c.rows), 6))
	return randomMatrix(r, c.rows, 3*c.channels, 5), random(r, c.channels*c.taps), randomMatrix(r, c.rows, c.channels, 1)
}

func (c convCase) conv(weight []float32) ShortConv {
	return NewShortConv(make([]float32, len(weight)), weight, c.channels)
}

func flat(m Matrix) (out []float32) {
	for i := range m.Rows {
		out = append(out, m.Row(i)...)
	}
	return out
}

func TestShortConv(t *testing.T) {
	want := map[string][3][]float32{} // of the portable set
	eachSet(t, func(t *testing.T) {
		for k, c := range convCases() {
			name := fmt.Sprint("case ", k)
			bcx, weight, dout := c.data()
			run := func(pool *Pool) [3][]float32 {
				out, dbcx, dweight := zeros(c.rows, c.channels), zeros(c.rows, 3*c.channels), make([]float32, len(weight))
				c.conv(weight).Forward(pool, out, zeros(c.rows, c.channels), bcx, c.segments)
				for i := range dbcx.Data {
					dbcx.Data[i] = 7 // it is overwritten
				}
				c.conv(weight).Backward(pool, dbcx, dweight, dout, bcx, c.segments)
				return [3][]float32{out.Data, dbcx.Data, dweight}
			}
			got := run(nil)
			wide := widen([][]float32{flat(bcx), weight, flat(dout)})
			out, dbcx, dweight := c.reference(wide[0], wide[1], wide[2])
			for part, reference := range [3][]float64{out, dbcx, dweight} {
				for i, v := range reference {
					near(t, fmt.Sprintf("%s, result %d, element %d", name, part, i), float64(got[part][i]), v, 3e-5)
				}
			}
			pool := NewPool(4)
			for part, v := range run(pool) {
				sameBits(t, name+" on four cores", v, got[part])
				if of, ok := want[name]; ok {
					sameBits(t, name+" of another set", v, of[part])
				}
			}
			pool.Close()
			want[name] = got
		}
	})
}

// Tokens that are computed one by one, or a few at a time, have the bits of a row: their pages are anywhere, those of a prefix are
// shared, and what a token that came to nothing has left in a slot is replaced.
func TestShortConvInPagesEqualsRows(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		for k, c := range convCases() {
			bcx, weight, _ := c.data()
			conv, want := c.conv(weight), zeros(c.rows, c.channels)
			conv.Forward(nil, want, zeros(c.rows, c.channels), bcx, c.segments)
			for _, step := range []int{1, 3, 64} {
				pages, got := zeros(100*PageTokens, c.channels), zeros(c.rows, c.channels)
				random := rand.New(rand.NewPCG(3, 3)).Perm(100)
				tables := make([][]int32, len(c.segments))
				for s, seg := range c.segments {
					first := beforeEach(c.segments)[s]
					if seg.Prefix >= 0 {
						tables[s] = slices.Clone(tables[seg.Prefix])
					}
					if n := first % PageTokens; n > 0 { // a branch has a page of its own
						old, own := tables[s][first/PageTokens], int32(random[0])
						random = random[1:]
						for i := range PageTokens {
							copy(pages.Row(int(own)*PageTokens+i), pages.Row(int(old)*PageTokens+i))
						}
						tables[s] = append(tables[s][:first/PageTokens], own)
					}
					for len(tables[s])*PageTokens < first+seg.Len {
						tables[s], random = append(tables[s], int32(random[0])), random[1:]
					}
					for at := 0; at < seg.Len; at += step {
						n := min(step, seg.Len-at)
						var slots []int32
						var views []View
						for i := range n {
							position := first + at + i
							slots = append(slots, tables[s][position/PageTokens]*PageTokens+int32(position%PageTokens))
							views = append(views, View{Pages: tables[s], Tokens: position + 1})
						}
						rows := bcx.RowRange(seg.Start+at, seg.Start+at+n)
						drafts := rows
						drafts.Data = random32(rows.Data)
						conv.Paged(nil, zeros(n, c.channels), drafts, pages, slots, views)
						conv.Paged(nil, got.RowRange(seg.Start+at, seg.Start+at+n), rows, pages, slots, views)
					}
				}
				sameBits(t, fmt.Sprintf("case %d, %d tokens at once", k, step), got.Data, want.Data)
			}
		}
	})
}

// random32 returns other numbers in place of v.
func random32(v []float32) []float32 {
	out := slices.Clone(v)
	for i := range out {
		out[i] = 3 - out[i]
	}
	return out
}
