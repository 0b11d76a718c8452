package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// attentionCase is packed sequences with and without shared prefixes.
type attentionCase struct {
	Attention
	segments []Segment
	rows     int
}

var attentionCases = slices.Concat(shapedCases, treeCases())

// treeCases are trees of segments that are drawn by chance.
func treeCases() (cases []attentionCase) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 21))
		c := attentionCase{Attention: Attention{Heads: 4, KVHeads: 1 + int(seed)%2, HeadDim: 8, Scale: 0.35, Window: 29 * int(seed/2)}}
		for i := range 3 + r.IntN(6) {
			s := Segment{Start: c.rows, Len: 1 + r.IntN([]int{3, 20, 90}[r.IntN(3)]), Prefix: r.IntN(i+1) - 1}
			c.segments, c.rows = append(c.segments, s), c.rows+s.Len
		}
		cases = append(cases, c)
	}
	return cases
}

var shapedCases = []attentionCase{
	{Attention{Heads: 1, KVHeads: 1, HeadDim: 8, Scale: 0.35}, []Segment{{0, 5, -1}}, 5},
	{Attention{Heads: 6, KVHeads: 2, HeadDim: 16, Scale: 0.25}, []Segment{{0, 70, -1}, {75, 9, -1}}, 84},
	{Attention{Heads: 4, KVHeads: 2, HeadDim: 24, Scale: 0.2}, []Segment{{0, 21, -1}, {40, 19, 0}, {60, 3, -1}, {21, 17, 0}}, 63},
	{Attention{Heads: 3, KVHeads: 1, HeadDim: 64, Scale: 0.125, Window: 20}, []Segment{{0, 33, -1}, {33, 90, 0}, {123, 1, 0}}, 124},
	{Attention{Heads: 2, KVHeads: 2, HeadDim: 40, Scale: 0.16, Window: 1}, []Segment{{0, 18, -1}}, 18},
	{Attention{Heads: 6, KVHeads: 3, HeadDim: 1, Scale: 1}, []Segment{{0, 70, -1}, {70, 17, 0}}, 87},
	{Attention{Heads: 4, KVHeads: 1, HeadDim: 4, Scale: 0.5, Window: 7}, []Segment{{0, 35, -1}, {35, 20, 0}}, 55},
	{Attention{Heads: 4, KVHeads: 2, HeadDim: 18, Scale: 0.25}, []Segment{{0, 19, -1}, {19, 66, 0}}, 85},
	{Attention{Heads: 2, KVHeads: 1, HeadDim: 300, Scale: 0.06}, []Segment{{0, 40, -1}}, 40},
	{Attention{Heads: 1, KVHeads: 1, HeadDim: 256, Scale: 0.0625}, []Segment{{0, 20, -1}, {20, 0, 0}, {20, 2, 0}, {22, 3, 1}}, 25},
	{Attention{Heads: 6, KVHeads: 2, HeadDim: 16, Scale: 0.25},
		[]Segment{{0, 3, -1}, {3, 70, 0}, {80, 1, 1}, {73, 7, 1}, {81, 66, 2}, {147, 5, 0}, {152, 1, 4}, {153, 30, 6}}, 183},
	{Attention{Heads: 4, KVHeads: 1, HeadDim: 24, Scale: 0.2, Window: 25},
		[]Segment{{0, 30, -1}, {30, 2, 0}, {32, 2, 1}, {34, 40, 2}, {74, 1, 2}, {75, 33, 1}}, 108},
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

// path lists the rows of the tokens of a segment and of its prefixes, in order.
func (c attentionCase) path(s int) (rows []int) {
	seg := c.segments[s]
	if seg.Prefix >= 0 {
		rows = c.path(seg.Prefix)
	}
	for j := range seg.Len {
		rows = append(rows, seg.Start+j)
	}
	return rows
}

// seen lists the rows that the query at offset i of a segment sees, in order.
func (c attentionCase) seen(s, i int) []int {
	rows := c.path(s)
	rows = rows[:len(rows)-c.segments[s].Len+i+1]
	if c.Window > 0 && len(rows) > c.Window {
		rows = rows[len(rows)-c.Window:]
	}
	return rows
}

// reference is attention in float64 by its definition, with the gradient if dout is given.
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
	c := attentionCase{Attention{Heads: 2, KVHeads: 1, HeadDim: 8, Scale: 0.3, Window: 5}, []Segment{
		{0, 4, -1}, {4, 3, 0}, {7, 2, 1}, {9, 2, 0},
	}, 11}
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

// TestAttentionAlone: a sequence gets the same bits alone as among others, and as decoding gives
// row by row.
func TestAttentionAlone(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		for i, c := range attentionCases {
			d := c.data(uint64(i))
			out, lse := c.forward(nil, d)
			for s, seg := range c.segments {
				alone, rows := c.alone(d, s)
				out1, lse1 := alone.forward(nil, rows)
				from, to := alone.rows-seg.Len, alone.rows
				sameBits(t, "out alone", rowData(out1, from, to), rowData(out, seg.Start, seg.Start+seg.Len))
				sameBits(t, "lse alone", rowData(lse1, from, to), rowData(lse, seg.Start, seg.Start+seg.Len))
				c.decode(t, d, F32, s, out)
			}
			out, _ = c.forward(nil, d.stored(BF16))
			for s := range c.segments {
				c.decode(t, d, BF16, s, out)
			}
		}
	})
}

// alone returns a segment and its prefixes as one segment, with its rows.
func (c attentionCase) alone(d attentionData, s int) (attentionCase, attentionData) {
	path := c.path(s)
	pick := func(m Matrix) Matrix {
		out := zeros(len(path), m.Cols)
		for i, row := range path {
			copy(out.Row(i), m.Row(row))
		}
		return out
	}
	c.segments, c.rows = []Segment{{0, len(path), -1}}, len(path)
	return c, attentionData{pick(d.q), pick(d.k), pick(d.v), pick(d.dout)}
}

func rowData(m Matrix, from, to int) []float32 { return m.Data[from*m.Stride : to*m.Stride] }

// stored is d with the keys and values that pages of the storage hold.
func (d attentionData) stored(storage Storage) attentionData {
	if storage == BF16 {
		d.k, d.v = clone(d.k), clone(d.v)
		RoundToBF16(nil, d.k.Data)
		RoundToBF16(nil, d.v.Data)
	}
	return d
}

// decode replays a segment over pages: as the rows of a prompt, all at once, and token by token
// among other sequences.
func (c attentionCase) decode(t *testing.T, d attentionData, storage Storage, s int, out Matrix) {
	t.Helper()
	seg := c.segments[s]
	if seg.Len == 0 {
		return
	}
	kv, rows := c.paged(t, d, storage)
	want := rowData(out, seg.Start, seg.Start+seg.Len)
	var views []View
	for i := range seg.Len {
		views = append(views, View{rows.pages(s), len(c.seenWhole(s, i))})
	}
	got := zeros(seg.Len, out.Cols)
	var plan Reading
	plan.Plan(c.Attention, nil, views)
	c.Paged(nil, got, d.q.RowRange(seg.Start, seg.Start+seg.Len), &kv, &plan)
	sameBits(t, fmt.Sprintf("segment %d from pages", s), got.Data, want)
	for i := range seg.Len {
		plan.Plan(c.Attention, nil, views[i:i+1])
		c.Paged(nil, got.RowRange(i, i+1), d.q.RowRange(seg.Start+i, seg.Start+i+1), &kv, &plan)
	}
	sameBits(t, fmt.Sprintf("segment %d token by token", s), got.Data, want)
}

// seenWhole lists the rows that the query at offset i of a segment comes after, itself included,
// window or not.
func (c attentionCase) seenWhole(s, i int) []int {
	c.Window = 0
	return c.seen(s, i)
}

// pageTables are the pages of segments.
type pageTables [][]int32

func (p pageTables) pages(s int) []int32 { return p[s] }

// paged stores the segments of a case in pages, which lie about in the order of a permutation; a
// segment shares the whole pages of its prefix.
func (c attentionCase) paged(t *testing.T, d attentionData, storage Storage) (KVPages, pageTables) {
	t.Helper()
	arena := NewArena()
	t.Cleanup(func() { arena.Free() })
	const pages = 64
	kv, err := NewKVPages(arena, c.Attention, pages, storage)
	if err != nil {
		t.Fatal(err)
	}
	for i := range kv.keys {
		kv.keys[i] = float32(math.NaN()) // what others left behind must not matter
	}
	for i := range kv.values {
		kv.values[i] = math.Float32frombits(0x7fff7fff)
	}
	free := rand.New(rand.NewPCG(uint64(c.rows), 3)).Perm(pages)
	sort := func(n int) { slices.Sort(free[:n]) } // some pages follow one another
	sort(pages / 2)
	take := func() int32 {
		p := free[0]
		free = free[1:]
		return int32(p)
	}
	tables := make(pageTables, len(c.segments))
	for s, seg := range c.segments {
		if seg.Len == 0 && seg.Prefix < 0 {
			continue
		}
		from := 0
		if seg.Prefix >= 0 {
			from = len(c.path(seg.Prefix))
			shared := from / PageTokens
			tables[s] = slices.Clone(tables[seg.Prefix][:shared])
			if n := from % PageTokens; n > 0 {
				page := take()
				kv.Copy(page, tables[seg.Prefix][shared], n)
				tables[s] = append(tables[s], page)
			}
		}
		var slots []int32
		for i := range seg.Len {
			if (from+i)/PageTokens == len(tables[s]) {
				tables[s] = append(tables[s], take())
			}
			slots = append(slots, tables[s][(from+i)/PageTokens]*PageTokens+int32((from+i)%PageTokens))
		}
		kv.Store(nil, d.k.RowRange(seg.Start, seg.Start+seg.Len), d.v.RowRange(seg.Start, seg.Start+seg.Len), slots)
	}
	return kv, tables
}

// TestPagedTogether: queries of several sequences that share pages, in one call.
func TestPagedTogether(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	eachSet(t, func(t *testing.T) {
		for i, c := range slices.Concat(attentionCases, attentionCases) {
			d, storage := c.data(uint64(i)), []Storage{F32, BF16}[i/len(attentionCases)]
			out, _ := c.forward(nil, d.stored(storage))
			kv, tables := c.paged(t, d, storage)
			var views []View
			var rows []int
			for s, seg := range c.segments { // the newest tokens of all, then each one's last rows
				for back := 1; back <= min(seg.Len, 9); back++ {
					rows = append(rows, seg.Start+seg.Len-back)
					views = append(views, View{tables[s], len(c.seenWhole(s, seg.Len-back))})
				}
			}
			for range 3 {
				r := rand.New(rand.NewPCG(1, 2))
				r.Shuffle(len(rows), func(i, j int) {
					if r.IntN(2) == 0 {
						rows[i], rows[j], views[i], views[j] = rows[j], rows[i], views[j], views[i]
					}
				})
				q, got := zeros(len(rows), d.q.Cols), zeros(len(rows), d.q.Cols)
				for i, row := range rows {
					copy(q.Row(i), d.q.Row(row))
				}
				var plan Reading
				plan.Plan(c.Attention, pool, views)
				c.Paged(pool, got, q, &kv, &plan)
				for j, row := range rows {
					sameBits(t, fmt.Sprintf("case %d, row %d", i, row), got.Row(j), out.Row(row))
				}
			}
		}
	})
}

func TestReadersJoin(t *testing.T) {
	long := func(own ...int32) []int32 { return append([]int32{1, 2, 3, 4, 5, 6, 7, 8}, own...) }
	for _, c := range []struct {
		name  string
		views [][]int32
		want  []int // queries of each group
	}{
		{"rows of a prompt", [][]int32{{1}, {1, 2}, {1, 2}, {1, 2, 3}}, []int{4}},
		{"a prompt's completions", [][]int32{long(20), long(21, 22), long(), long(23)}, []int{4}},
		{"strangers", [][]int32{{1}, {2}, {3, 1}}, []int{1, 1, 1}},
		{"two groups that begin alike", [][]int32{long(20), long(21), {1, 30, 31}, {1, 30, 32}}, []int{2, 2}},
		{"one far behind", [][]int32{{1, 2}, long(20)}, []int{2}},
	} {
		var views []View
		for _, pages := range c.views {
			views = append(views, View{pages, len(pages) * PageTokens})
		}
		var plan Reading
		plan.Plan(Attention{Heads: 8, KVHeads: 8, HeadDim: 4}, nil, views)
		var got []int
		for _, g := range plan.groups {
			got = append(got, g.to-g.from)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: groups of %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPlanReadsCommonPagesOnce: prompts of 9 pages with completions of 2 pages of their own. Few cores
// read every page once; where that would leave cores idle, few parts of a group read it again.
func TestPlanReadsCommonPagesOnce(t *testing.T) {
	a := Attention{Heads: 9, KVHeads: 3, HeadDim: 64}
	for _, c := range []struct {
		prompts, copies, cores int
		groups                 int
		most                   float64 // times that a page is read in the mean
	}{
		{4, 8, 2, 4, 1}, {8, 4, 2, 8, 1}, {1, 32, 2, 2, 1.13}, {32, 1, 2, 32, 1}, {4, 8, 4, 4, 1}, {4, 8, 8, 8, 1.37}, {4, 8, 16, 4, 1},
		{8, 4, 16, 16, 1.54}, {1, 32, 8, 7, 1.75}, {32, 1, 16, 32, 1}, {1, 64, 16, 13, 1.8}, {4, 16, 16, 16, 1.67},
	} {
		var views []View
		page := int32(0)
		pages := func(n int) (out []int32) {
			for range n {
				out, page = append(out, page), page+1
			}
			return out
		}
		for range c.prompts {
			common := pages(9)
			for range c.copies {
				views = append(views, View{append(slices.Clone(common), pages(2)...), 11*PageTokens - 3})
			}
		}
		var plan Reading
		plan.Plan(a, idle(c.cores), views)
		read := 0
		for _, g := range plan.groups {
			read += len(g.pages)
			for _, v := range views[g.from:g.to] {
				read += max(0, len(v.pages())-len(g.pages))
			}
		}
		if times := float64(read) / float64(page); len(plan.groups) != c.groups || times > c.most {
			t.Errorf("%d × %d on %d cores: %d groups read pages %.2f times, want %d and %v",
				c.prompts, c.copies, c.cores, len(plan.groups), times, c.groups, c.most)
		}
	}
}

// TestPagedAllocatesNothing, on one core, once its scratch is there.
func TestPagedAllocatesNothing(t *testing.T) {
	c := attentionCases[1]
	kv, tables := c.paged(t, c.data(1), F32)
	q, out := zeros(3, c.Heads*c.HeadDim), zeros(3, c.Heads*c.HeadDim)
	views := []View{{tables[0], 70}, {tables[0], 69}, {tables[1], 9}}
	pool := NewPool(1)
	var plan Reading
	if n := testing.AllocsPerRun(20, func() {
		plan.Plan(c.Attention, pool, views)
		c.Paged(pool, out, q, &kv, &plan)
	}); n > 1 { // the task's closure
		t.Errorf("%v allocations", n)
	}
}

func TestScoresHaveAFactorByDefault(t *testing.T) {
	c := attentionCase{Attention: Attention{Heads: 2, KVHeads: 1, HeadDim: 8}, segments: []Segment{{0, 9, -1}}, rows: 9}
	d := c.data(3)
	var outs [2]Matrix
	for i, scale := range []float32{0, float32(1 / math.Sqrt(8))} {
		outs[i], c.Scale = zeros(c.rows, 16), scale
		c.Forward(nil, outs[i], zeros(c.rows, 2), d.q, d.k, d.v, c.segments)
	}
	if !slices.Equal(outs[0].Data, outs[1].Data) {
		t.Error("no factor gives other results than 1/√HeadDim")
	}
}
