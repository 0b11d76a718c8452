package kernel

import "sync"

// Divergence is a distance, in nats, between the distribution p of a teacher and the distribution q
// of a student over one vocabulary: [ForwardKL], [ReverseKL] or [JSD].
type Divergence interface {
	// value adds a block's part to the divergence, and to what gradient takes as inner.
	value(r *ratios, value, inner *float64)
	// gradient writes scale times the derivatives by the student's logits to g.
	gradient(r *ratios, g []float32, inner, scale float32)
}

// Divergences writes the divergence of each row of student from the same row of teacher, both
// logits [rows, vocab], to value [rows], and the argument inner [rows] of [DivergenceBackward].
// studentLSE and teacherLSE [rows] are the rows' ln Σ e^logits ([LogitStats]). A row's sums run
// over the vocabulary in order, in float64.
func Divergences(pool *Pool, d Divergence, student, teacher Matrix, studentLSE, teacherLSE, value, inner []float32) {
	checkPair("Divergences", student, teacher, studentLSE, teacherLSE, inner)
	checkLen("Divergences: value", value, student.Rows)
	ks := current()
	pool.runRows(student.Rows, 16*student.Cols, func(from, to int) {
		r := ratioPool.Get().(*ratios)
		defer ratioPool.Put(r)
		for i := from; i < to; i++ {
			v, in := 0.0, 0.0
			r.each(ks, student.Row(i), teacher.Row(i), studentLSE[i], teacherLSE[i], func([]float32) { d.value(r, &v, &in) })
			value[i], inner[i] = float32(v), float32(in)
		}
	})
}

// DivergenceBackward replaces the rows of teacher by grad [rows] times the derivatives of the
// divergence with respect to the rows of student. The other arguments are those of [Divergences],
// which fills inner.
func DivergenceBackward(pool *Pool, d Divergence, student, teacher Matrix, studentLSE, teacherLSE, inner, grad []float32) {
	checkPair("DivergenceBackward", student, teacher, studentLSE, teacherLSE, inner)
	checkLen("DivergenceBackward: grad", grad, student.Rows)
	ks := current()
	pool.runRows(student.Rows, 16*student.Cols, func(from, to int) {
		r := ratioPool.Get().(*ratios)
		defer ratioPool.Put(r)
		for i := from; i < to; i++ {
			r.each(ks, student.Row(i), teacher.Row(i), studentLSE[i], teacherLSE[i], func(g []float32) { d.gradient(r, g, inner[i], grad[i]) })
		}
	})
}

// checkPair panics unless student and teacher have the same shape, and every other argument one
// number per row.
func checkPair(what string, student, teacher Matrix, studentLSE, teacherLSE, inner []float32) {
	student.checkShape(what+": student", student.Rows, student.Cols)
	teacher.checkShape(what+": teacher", student.Rows, student.Cols)
	checkLen(what+": studentLSE", studentLSE, student.Rows)
	checkLen(what+": teacherLSE", teacherLSE, student.Rows)
	checkLen(what+": inner", inner, student.Rows)
}

// ratioBlock is the number of tokens per block: the numbers of a block stay in a first-level cache.
const ratioBlock = 512

// ratios are the distributions of teacher and student over a block of the vocabulary.
type ratios struct {
	n          int                 // tokens of the block
	logP, logQ [ratioBlock]float32 // nats
	p, q       [ratioBlock]float32
	d          [ratioBlock]float32 // ln(p/q)
	ratio      [ratioBlock]float32 // p/q, as far as withRatio has filled it
}

var ratioPool = sync.Pool{New: func() any { return new(ratios) }}

// each fills r with one block of a row after the other and calls do with the block of teacher,
// which do may overwrite.
func (r *ratios) each(ks *kernels, student, teacher []float32, studentLSE, teacherLSE float32, do func(teacher []float32)) {
	for from := 0; from < len(student); from += ratioBlock {
		s, t := student[from:min(len(student), from+ratioBlock)], teacher[from:min(len(student), from+ratioBlock)]
		r.n = len(s)
		for i := range s {
			r.logP[i], r.logQ[i] = t[i]-teacherLSE, s[i]-studentLSE
			r.d[i] = r.logP[i] - r.logQ[i]
		}
		unary(r.p[:r.n], r.logP[:r.n], ks.exp)
		unary(r.q[:r.n], r.logQ[:r.n], ks.exp)
		do(t)
	}
}
