package main

// kernel describes a row or vector kernel over n elements, n a multiple of 16.
type kernel struct {
	name     string
	args     []arg // pointers that the loop advances first
	advance  int   // how many of the pointers advance
	setup    func(f *function)
	body     func(f *function, off int, sub int) // one register's worth at byte off; sub counts the registers of 16 lanes
	sums     []vec                               // first of the accumulators: one per sub; each starts at 0 or at the first element
	maxima   bool                                // sums[0] holds maxima
	toMemory bool                                // sums go to the last pointer
}

// vectorKernels emits all of them.
func (s *set) vectorKernels() {
	for _, k := range kernels(s.m) {
		s.vectorKernel(k)
	}
}

func (s *set) vectorKernel(k kernel) {
	m := s.m
	hasResult := len(k.sums) > 0 && !k.toMemory
	f := s.function(k.name, k.name, hasResult, append(k.args, arg{"n", "int"})...)
	pointers := 0
	floats := vec(0)
	for _, a := range k.args {
		if a.typ == "float32" {
			m.floatArg(f, floatRegister(floats), a.name)
			floats++
			continue
		}
		m.pointerArg(f, pointers, a.name)
		pointers++
	}
	m.countArg(f, "n")
	if k.setup != nil {
		k.setup(f)
	}
	subs := 16 / m.width()
	for _, first := range k.sums {
		for sub := range subs {
			if k.maxima {
				m.load(f, first+vec(sub), 0, 4*m.width()*sub)
			} else {
				m.zero(f, first+vec(sub))
			}
		}
	}
	m.loop(f, f.label("loop"))
	for sub := range subs {
		k.body(f, 4*m.width()*sub, sub)
	}
	m.next(f, f.label("loop"), k.advance)
	for i, first := range k.sums {
		var group []vec
		for sub := range subs {
			group = append(group, first+vec(sub))
		}
		op := "add"
		if k.maxima {
			op = "max"
		}
		m.fold(f, op, group, 0)
		if k.toMemory {
			m.storeLane(f, first, pointers-1, 4*i)
		} else {
			m.result(f, first)
		}
	}
	m.end(f)
}

// floatRegister is where scalar argument i lives: below it are the temporaries, above the
// accumulators.
func floatRegister(i vec) vec { return 6 + i }

// accumulator is the first register of sum i.
func accumulator(m machine, i int) vec { return vec(9 + i*16/m.width()) }

// kernels are the definitions; registers 0 to 5 are temporaries, 6 to 8 scalars, from 9 on sums.
func kernels(m machine) []kernel {
	s0, s1, s2 := floatRegister(0), floatRegister(1), floatRegister(2)
	sum0, sum1 := accumulator(m, 0), accumulator(m, 1)
	scalar := func(names ...string) (args []arg) {
		for _, n := range names {
			args = append(args, arg{n, "float32"})
		}
		return args
	}
	join := func(a []arg, b ...arg) []arg { return append(a, b...) }
	return []kernel{
		{name: "dot", args: pointer("x", "y"), advance: 2, sums: []vec{sum0}, body: func(f *function, off, sub int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.fma(f, sum0+vec(sub), 0, 1)
		}},
		{name: "dot3", args: pointer("x", "y", "z"), advance: 3, sums: []vec{sum0}, body: func(f *function, off, sub int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.load(f, 2, 2, off)
			m.mul(f, 0, 0, 1)
			m.fma(f, sum0+vec(sub), 0, 2)
		}},
		{name: "max", args: pointer("x"), advance: 1, sums: []vec{sum0}, maxima: true, body: func(f *function, off, sub int) {
			m.load(f, 0, 0, off)
			m.maximum(f, sum0+vec(sub), sum0+vec(sub), 0)
		}},
		{name: "axpy", args: join(pointer("y", "x"), scalar("a")...), advance: 2, body: func(f *function, off, _ int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.fma(f, 0, s0, 1)
			m.store(f, 0, 0, off)
		}},
		{name: "add", args: pointer("y", "x"), advance: 2, body: func(f *function, off, _ int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.add(f, 0, 0, 1)
			m.store(f, 0, 0, off)
		}},
		{name: "scale", args: join(pointer("y", "x"), scalar("a")...), advance: 2, body: func(f *function, off, _ int) {
			m.load(f, 0, 1, off)
			m.mul(f, 0, s0, 0)
			m.store(f, 0, 0, off)
		}},
		{name: "scaleMul", args: join(pointer("y", "x", "w"), scalar("a")...), advance: 3, body: func(f *function, off, _ int) {
			m.load(f, 0, 1, off)
			m.load(f, 1, 2, off)
			m.mul(f, 0, 0, s0)
			m.mul(f, 0, 0, 1)
			m.store(f, 0, 0, off)
		}},
		{name: "normDX", args: join(pointer("dx", "dy", "x", "w"), scalar("rstd", "c")...), advance: 4, body: func(f *function, off, _ int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.load(f, 2, 2, off)
			m.load(f, 3, 3, off)
			m.mul(f, 1, 1, s0)
			m.fma(f, 0, 1, 3)
			m.fnma(f, 0, s1, 2)
			m.store(f, 0, 0, off)
		}},
		{name: "mulAdd", args: join(pointer("dw", "dy", "x"), scalar("rstd")...), advance: 3, body: func(f *function, off, _ int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.load(f, 2, 2, off)
			m.mul(f, 1, 1, s0)
			m.fma(f, 0, 1, 2)
			m.store(f, 0, 0, off)
		}},
		{name: "exp", args: pointer("y", "x"), advance: 2, body: func(f *function, off, _ int) {
			m.load(f, 0, 1, off)
			exp(f, 0, 1, 2, 3)
			m.store(f, 0, 0, off)
		}},
		{name: "expSum", args: join(pointer("y", "x"), scalar("m")...), advance: 2, sums: []vec{sum0}, body: func(f *function, off, sub int) {
			m.load(f, 0, 1, off)
			m.sub(f, 0, 0, s0)
			exp(f, 0, 1, 2, 3)
			m.add(f, sum0+vec(sub), sum0+vec(sub), 0)
			m.store(f, 0, 0, off)
		}},
		{name: "entropySum", args: []arg{{"x", "*float32"}, {"m", "float32"}, {"sums", "*[2]float32"}}, advance: 1,
			sums: []vec{sum0, sum1}, toMemory: true, body: func(f *function, off, sub int) {
				m.load(f, 0, 0, off)
				m.sub(f, 0, 0, s0)
				m.constant(f, 4, logFloor)
				m.maximum(f, 4, 4, 0)
				exp(f, 0, 1, 2, 3)
				m.add(f, sum0+vec(sub), sum0+vec(sub), 0)
				m.fma(f, sum1+vec(sub), 0, 4)
			}},
		{name: "logitGrad", args: join(pointer("x"), scalar("lse", "a", "b")...), advance: 1, body: func(f *function, off, _ int) {
			m.load(f, 0, 0, off)
			m.sub(f, 0, 0, s0)
			m.constant(f, 4, logFloor)
			m.maximum(f, 4, 4, 0)
			exp(f, 0, 1, 2, 3)
			m.move(f, 1, s1)
			m.fma(f, 1, s2, 4)
			m.mul(f, 0, 0, 1)
			m.store(f, 0, 0, off)
		}},
		{name: "swiglu", args: pointer("y", "gate", "up"), advance: 3, body: func(f *function, off, _ int) {
			m.load(f, 4, 1, off)
			sigmoidDenominator(f, 0, 4)
			m.div(f, 0, 4, 0)
			m.load(f, 1, 2, off)
			m.mul(f, 0, 0, 1)
			m.store(f, 0, 0, off)
		}},
		{name: "swigluGrad", args: pointer("dgate", "dup", "dy", "gate", "up"), advance: 5, body: func(f *function, off, _ int) {
			m.load(f, 4, 3, off)
			sigmoidDenominator(f, 0, 4)
			m.constant(f, 1, one)
			m.div(f, 0, 1, 0) // s
			m.mul(f, 4, 4, 0) // gate·s
			m.move(f, 3, 4)
			m.fnma(f, 3, 0, 4)
			m.add(f, 3, 3, 0) // derivative of the activation
			gateGrads(f, off, 4, 3)
		}},
		{name: "geglu", args: pointer("y", "gate", "up"), advance: 3, body: func(f *function, off, _ int) {
			m.load(f, 4, 1, off)
			geluArgument(f, 5, 4)
			sigmoidDenominator(f, 0, 5)
			m.div(f, 0, 4, 0)
			m.load(f, 1, 2, off)
			m.mul(f, 0, 0, 1)
			m.store(f, 0, 0, off)
		}},
		{name: "gegluGrad", args: pointer("dgate", "dup", "dy", "gate", "up"), advance: 5, body: func(f *function, off, _ int) {
			m.load(f, 4, 3, off)
			geluArgument(f, 5, 4)
			sigmoidDenominator(f, 0, 5)
			m.constant(f, 1, one)
			m.div(f, 0, 1, 0) // s
			m.mul(f, 3, 4, 0) // gate·s
			m.move(f, 5, 3)
			m.fnma(f, 5, 0, 3) // gate·s·(1−s)
			m.mul(f, 4, 4, 4)
			m.mulConstant(f, 1, 4, geluCube)
			m.constant(f, 2, geluCube)
			m.horner(f, 2, 4, geluSlope, scratchOf(m))
			m.add(f, 2, 2, 1)
			m.add(f, 2, 2, 1) // derivative of geluArgument
			m.fma(f, 0, 5, 2) // derivative of the activation
			gateGrads(f, off, 3, 0)
		}},
		{name: "rotate", args: join(pointer("x0", "x1", "cos", "sin"), scalar("sign")...), advance: 4, body: func(f *function, off, _ int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.load(f, 2, 2, off)
			m.load(f, 3, 3, off)
			m.mul(f, 3, 3, s0)
			m.mul(f, 4, 0, 2)
			m.fnma(f, 4, 1, 3)
			m.mul(f, 5, 1, 2)
			m.fma(f, 5, 0, 3)
			m.store(f, 4, 0, off)
			m.store(f, 5, 1, off)
		}},
		{name: "softGrad", args: join(pointer("dp", "p"), scalar("delta", "scale")...), advance: 2, body: func(f *function, off, _ int) {
			m.load(f, 0, 0, off)
			m.load(f, 1, 1, off)
			m.sub(f, 0, 0, s0)
			m.mul(f, 0, 0, 1)
			m.mul(f, 0, 0, s1)
			m.store(f, 0, 0, off)
		}},
		adamw(m, join),
	}
}

// sigmoidDenominator emits d = 1 + e^-x; 1, 2 and 3 are lost.
func sigmoidDenominator(f *function, d, x vec) {
	m := f.set.m
	m.zero(f, d)
	m.sub(f, d, d, x)
	exp(f, d, 1, 2, 3)
	m.addConstant(f, d, d, one)
}

// gateGrads stores the gradients by gate and up, given the activation of the gate and its derivative; 1 and 2 are lost.
func gateGrads(f *function, off int, activation, derivative vec) {
	m := f.set.m
	m.load(f, 1, 2, off)
	m.load(f, 2, 4, off)
	m.mul(f, 2, 1, 2) // dy·up
	m.mul(f, 1, 1, activation)
	m.mul(f, 2, 2, derivative)
	m.store(f, 2, 0, off)
	m.store(f, 1, 1, off)
}

// geluArgument emits t = x·(geluSlope + geluCube·x²), for which gelu(x) = x·sigmoid(t); 0 is lost.
func geluArgument(f *function, t, x vec) {
	m := f.set.m
	m.mul(f, 0, x, x)
	m.constant(f, t, geluCube)
	m.horner(f, t, 0, geluSlope, scratchOf(m))
	m.mul(f, t, t, x)
}

// adamw's constants are the fields of adamConstants, in registers 6 to 14.
func adamw(m machine, join func([]arg, ...arg) []arg) kernel {
	const gradScale, beta1, oneMinusBeta1, beta2, oneMinusBeta2, invCorrection2, eps, step, decay = 6, 7, 8, 9, 10, 11, 12, 13, 14
	return kernel{
		name: "adamw", args: join(pointer("param", "grad", "m", "v"), arg{"c", "*adamConstants"}), advance: 4,
		setup: func(f *function) {
			for i := range 9 {
				m.floatField(f, vec(gradScale+i), 4, 4*i)
			}
		},
		body: func(f *function, off, _ int) {
			m.load(f, 0, 1, off)
			m.mul(f, 0, 0, gradScale)
			m.load(f, 1, 2, off)
			m.mul(f, 1, 1, beta1)
			m.fma(f, 1, oneMinusBeta1, 0)
			m.store(f, 1, 2, off)
			m.load(f, 2, 3, off)
			m.mul(f, 2, 2, beta2)
			m.mul(f, 0, 0, 0)
			m.fma(f, 2, oneMinusBeta2, 0)
			m.store(f, 2, 3, off)
			m.mul(f, 2, 2, invCorrection2)
			m.sqrt(f, 2, 2)
			m.add(f, 2, 2, eps)
			m.mul(f, 1, 1, step)
			m.div(f, 1, 1, 2)
			m.load(f, 0, 0, off)
			m.mul(f, 0, 0, decay)
			m.sub(f, 0, 0, 1)
			m.store(f, 0, 0, off)
		},
	}
}
