package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// attentionCase is packed sequences with and without shared prefixes.
type attentionCase struct {
	Attention
	segments []Segment
	rows     int
}

var attentionCases = []attentionCase{
	{Attention{Heads: 1, KVHeads: 1, HeadDim: 8, Scale: 0.35}, []Segment{{0, 5, -1}}, 5},
	{Attention{Heads: 6, KVHeads: 2, HeadDim: 16, Scale: 0.25}, []Segment{{0, 70, -1}, {75, 9, -1}}, 84},
	{Attention{Heads: 4, KVHeads: 2, HeadDim: 24, Scale: 0.2}, []Segment{{40, 19, 1}, {0, 21, -1}, {21, 17, 1}, {60, 3, -1}}, 63},
	{Attention{Heads: 3, KVHeads: 1, HeadDim: 64, Scale: 0.125, Window: 20}, []Segment{{0, 33, -1}, {33, 90, 0}, {123, 1, 0}}, 124},
	{Attention{Heads: 2, KVHeads: 2, HeadDim: 40, Scale: 0.16, Window: 1}, []Segment{{0, 18, -1}}, 18},
	{Attention{Heads: 6, KVHeads: 3, HeadDim: 1, Scale: 1}, []Segment{{0, 70, -1}, {70, 17, 0}}, 87},
	{Attention{Heads: 4, KVHeads: 1, HeadDim: 4, Scale: 0.5, Window: 7}, []Segment{{0, 35, -1}, {35, 20, 0}}, 55},
	{Attention{Heads: 4, KVHeads: 2, HeadDim: 18, Scale: 0.25}, []Segment{{0, 19, -1}, {19, 66, 0}}, 85},
	{Attention{Heads: 2, KVHeads: 1, HeadDim: 300, Scale: 0.06}, []Segment{{0, 40, -1}}, 40},
	{Attention{Heads: 1, KVHeads: 1, HeadDim: 256, Scale: 0.0625}, []Segment{{0, 20, -1}, {20, 0, 0}, {20, 2, 0}}, 22},
}

// attentionData is inputs of one case; rows carry slack.
type attentionData struct{ q, k, v, dout Matrix }

func (c attentionCase) data(seed uint64) attentionData {
	r := rand.New(rand.NewPCG(seed, 9))
	heads, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return attentionData{randomMatrix(r, c.rows, heads, 7), randomMatrix(r, c.rows, kv, 3), randomMatrix(r, c.rows, kv, 0), randomMatrix(r, c.rows, heads, 1)}
}

func zeros(rows, cols int) Matrix { return NewMatrix(make([]float32, rows*cols), rows, cols) }

func (c attentionCase) forward(pool *Pool, d attentionData) (out, lse Matrix) {
	out, lse = zeros(c.rows, c.Heads*c.HeadDim), zeros(c.rows, c.Heads)
	c.Forward(pool, out, lse, d.q, d.k, d.v, c.segments)
	return out, lse
}

// seen lists the rows that the query at offset i of a segment sees, in order.
func (c attentionCase) seen(s, i int) (rows []int) {
	seg := c.segments[s]
	if seg.Prefix >= 0 {
		p := c.segments[seg.Prefix]
		for j := range p.Len {
			rows = append(rows, p.Start+j)
		}
	}
	for j := range i + 1 {
		rows = append(rows, seg.Start+j)
	}
	if c.Window > 0 && len(rows) > c.Window {
		rows = rows[len(rows)-c.Window:]
	}
	return rows
}

// reference is attention in float64 by its definition, with the gradient when dout is there.
type reference struct{ out, lse, dq, dk, dv map[[2]int]float64 }

func (c attentionCase) reference(d attentionData) reference {
	ref := reference{map[[2]int]float64{}, map[[2]int]float64{}, map[[2]int]float64{}, map[[2]int]float64{}, map[[2]int]float64{}}
	for s, seg := range c.segments {
		for i := range seg.Len {
			for h := range c.Heads {
				c.referenceRow(ref, d, seg.Start+i, h, c.seen(s, i))
			}
		}
	}
	return ref
}

func (c attentionCase) referenceRow(ref reference, d attentionData, row, h int, seen []int) {
	q0, k0 := h*c.HeadDim, h/(c.Heads/c.KVHeads)*c.HeadDim
	p := make([]float64, len(seen))
	sum := 0.0
	for n, j := range seen {
		for e := range c.HeadDim {
			p[n] += at(d.q, row, q0+e) * at(d.k, j, k0+e)
		}
		p[n] = math.Exp(p[n] * float64(c.Scale))
		sum += p[n]
	}
	ref.lse[[2]int{row, h}] = math.Log(sum)
	delta := 0.0
	dp := make([]float64, len(seen))
	for n, j := range seen {
		p[n] /= sum
		for e := range c.HeadDim {
			ref.out[[2]int{row, q0 + e}] += p[n] * at(d.v, j, k0+e)
			dp[n] += at(d.dout, row, q0+e) * at(d.v, j, k0+e)
			ref.dv[[2]int{j, k0 + e}] += p[n] * at(d.dout, row, q0+e)
		}
		delta += p[n] * dp[n]
	}
	for n, j := range seen {
		ds := p[n] * (dp[n] - delta) * float64(c.Scale)
		for e := range c.HeadDim {
			ref.dq[[2]int{row, q0 + e}] += ds * at(d.k, j, k0+e)
			ref.dk[[2]int{j, k0 + e}] += ds * at(d.q, row, q0+e)
		}
	}
}

func compare(t *testing.T, what string, got Matrix, want map[[2]int]float64) {
	t.Helper()
	for at, w := range want {
		if g := float64(got.Row(at[0])[at[1]]); !(math.Abs(g-w) <= 2e-5*(1+math.Abs(w))) {
			t.Fatalf("%s %v: %v, want %v", what, at, g, w)
		}
	}
}

func TestAttention(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	var firsts [][]float32
	eachSet(t, func(t *testing.T) {
		var all [][]float32
		for i, c := range attentionCases {
			d := c.data(uint64(i))
			ref := c.reference(d)
			out, lse := c.forward(pool, d)
			compare(t, fmt.Sprintf("case %d: out", i), out, ref.out)
			compare(t, fmt.Sprintf("case %d: lse", i), lse, ref.lse)
			dq, dk, dv := zeros(c.rows, d.q.Cols), zeros(c.rows, d.k.Cols), zeros(c.rows, d.k.Cols)
			c.Backward(pool, dq, dk, dv, d.dout, out, lse, d.q, d.k, d.v, c.segments)
			compare(t, fmt.Sprintf("case %d: dq", i), dq, ref.dq)
			compare(t, fmt.Sprintf("case %d: dk", i), dk, ref.dk)
			compare(t, fmt.Sprintf("case %d: dv", i), dv, ref.dv)
			dq1, dk1, dv1 := zeros(c.rows, d.q.Cols), zeros(c.rows, d.k.Cols), zeros(c.rows, d.k.Cols)
			c.Backward(nil, dq1, dk1, dv1, d.dout, out, lse, d.q, d.k, d.v, c.segments)
			sameBits(t, "dq on one core", dq1.Data, dq.Data)
			sameBits(t, "dk on one core", dk1.Data, dk.Data)
			sameBits(t, "dv on one core", dv1.Data, dv.Data)
			all = append(all, out.Data, lse.Data, dq.Data, dk.Data, dv.Data)
		}
		if firsts == nil {
			firsts = all
		}
		for i := range all {
			sameBits(t, fmt.Sprintf("array %d of another set", i), all[i], firsts[i])
		}
	})
}

// TestReferenceGradient checks the reference's gradient by finite differences of its output.
func TestReferenceGradient(t *testing.T) {
	c := attentionCase{Attention{Heads: 2, KVHeads: 1, HeadDim: 8, Scale: 0.3, Window: 5}, []Segment{{4, 3, 1}, {0, 4, -1}, {7, 2, 1}}, 9}
	d := c.data(1)
	ref := c.reference(d)
	loss := func() float64 {
		r := c.reference(d)
		sum := 0.0
		for at, v := range r.out {
			sum += v * float64(d.dout.Row(at[0])[at[1]])
		}
		return sum
	}
	const step = 1.0 / 256
	for name, x := range map[string]struct {
		m    Matrix
		grad map[[2]int]float64
	}{"dq": {d.q, ref.dq}, "dk": {d.k, ref.dk}, "dv": {d.v, ref.dv}} {
		for _, p := range [][2]int{{3, 5}, {0, 0}, {8, 7}} {
			v := &x.m.Row(p[0])[p[1]]
			was := *v
			*v = was + step
			up := loss()
			*v = was - step
			down := loss()
			*v = was
			near(t, name, x.grad[p], (up-down)/(2*step), 1e-4)
		}
	}
}

// TestAttentionAlone: a sequence gets the same bits alone as among others, and as decoding gives row by row.
func TestAttentionAlone(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		for i, c := range attentionCases {
			d := c.data(uint64(i))
			out, lse := c.forward(nil, d)
			for s, seg := range c.segments {
				alone := c
				alone.segments = []Segment{{seg.Start, seg.Len, -1}}
				if seg.Prefix >= 0 {
					alone.segments = []Segment{c.segments[seg.Prefix], {seg.Start, seg.Len, 0}}
				}
				out1, lse1 := alone.forward(nil, d)
				from, to := seg.Start, seg.Start+seg.Len
				sameBits(t, "out alone", rowData(out1, from, to), rowData(out, from, to))
				sameBits(t, "lse alone", rowData(lse1, from, to), rowData(lse, from, to))
				c.decode(t, d, s, out)
			}
		}
	})
}

func rowData(m Matrix, from, to int) []float32 { return m.Data[from*m.Stride : to*m.Stride] }

// decode replays a segment token by token and compares with out.
func (c attentionCase) decode(t *testing.T, d attentionData, s int, out Matrix) {
	t.Helper()
	seg := c.segments[s]
	var caches []Cache
	for i := range seg.Len {
		own := KV{d.k.RowRange(seg.Start, seg.Start+i+1), d.v.RowRange(seg.Start, seg.Start+i+1)}
		cache := Cache{Own: own}
		if seg.Prefix >= 0 {
			p := c.segments[seg.Prefix]
			cache.Shared = KV{d.k.RowRange(p.Start, p.Start+p.Len), d.v.RowRange(p.Start, p.Start+p.Len)}
		}
		caches = append(caches, cache)
	}
	got := zeros(seg.Len, out.Cols)
	c.Decode(nil, got, d.q.RowRange(seg.Start, seg.Start+seg.Len), caches)
	sameBits(t, fmt.Sprintf("decode of segment %d", s), got.Data, rowData(out, seg.Start, seg.Start+seg.Len))
}
