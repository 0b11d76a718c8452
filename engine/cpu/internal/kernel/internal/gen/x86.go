package main

import "fmt"

// x86 emits AVX2 and FMA for 8 lanes, AVX-512F for 16.
type x86 struct {
	lanes     int
	registers int
	prefix    string // of the register names
}

var x86Pointers = []string{"DI", "SI", "DX", "R8", "R9"}

func (m *x86) width() int         { return m.lanes }
func (m *x86) constantLanes() int { return m.lanes }

func (m *x86) r(v vec) string { return fmt.Sprintf("%s%d", m.prefix, v) }

// memory is the operand at byte off of pointer register ptr.
func (m *x86) memory(ptr, off int) string {
	if off == 0 {
		return "(" + x86Pointers[ptr] + ")"
	}
	return fmt.Sprintf("%d(%s)", off, x86Pointers[ptr])
}

func (m *x86) symbol(f *function, c constant) string { return f.set.constant(c) + "<>(SB)" }

func (m *x86) hoist(*function, hoist) string { return "" }

func (m *x86) pointerArg(f *function, i int, name string) {
	f.emit("MOVQ %s, %s", f.slot(name), x86Pointers[i])
}
func (m *x86) countArg(f *function, name string) { f.emit("MOVQ %s, CX\nSHRQ $4, CX", f.slot(name)) }
func (m *x86) floatArg(f *function, v vec, name string) {
	f.emit("VBROADCASTSS %s, %s", f.slot(name), m.r(v))
}
func (m *x86) floatField(f *function, v vec, ptr, off int) {
	f.emit("VBROADCASTSS %s, %s", m.memory(ptr, off), m.r(v))
}
func (m *x86) loop(f *function, label string) { f.emit("%s:", label) }
func (m *x86) next(f *function, label string, pointers int) {
	for _, p := range x86Pointers[:pointers] {
		f.emit("ADDQ $64, %s", p)
	}
	f.emit("DECQ CX\nJNZ %s", label)
}

// op3 emits d = a op b.
func (m *x86) op3(f *function, op string, d, a, b vec) {
	f.emit("%s %s, %s, %s", op, m.r(b), m.r(a), m.r(d))
}

func (m *x86) load(f *function, v vec, ptr, off int) {
	f.emit("VMOVUPS %s, %s", m.memory(ptr, off), m.r(v))
}
func (m *x86) store(f *function, v vec, ptr, off int) {
	f.emit("VMOVUPS %s, %s", m.r(v), m.memory(ptr, off))
}
func (m *x86) zero(f *function, v vec) {
	f.emit("VXORPS X%d, X%d, X%d", v, v, v) // clears the whole register; all used here are below 16
}
func (m *x86) move(f *function, d, a vec)       { f.emit("VMOVAPS %s, %s", m.r(a), m.r(d)) }
func (m *x86) add(f *function, d, a, b vec)     { m.op3(f, "VADDPS", d, a, b) }
func (m *x86) sub(f *function, d, a, b vec)     { m.op3(f, "VSUBPS", d, a, b) }
func (m *x86) mul(f *function, d, a, b vec)     { m.op3(f, "VMULPS", d, a, b) }
func (m *x86) div(f *function, d, a, b vec)     { m.op3(f, "VDIVPS", d, a, b) }
func (m *x86) maximum(f *function, d, a, b vec) { m.op3(f, "VMAXPS", d, a, b) }
func (m *x86) minimum(f *function, d, a, b vec) { m.op3(f, "VMINPS", d, a, b) }
func (m *x86) sqrt(f *function, d, a vec)       { f.emit("VSQRTPS %s, %s", m.r(a), m.r(d)) }
func (m *x86) fma(f *function, sum, a, b vec)   { m.op3(f, "VFMADD231PS", sum, a, b) }
func (m *x86) fnma(f *function, sum, a, b vec)  { m.op3(f, "VFNMADD231PS", sum, a, b) }

// withConstant emits d = a op c.
func (m *x86) withConstant(f *function, op string, d, a vec, c constant) {
	f.emit("%s %s, %s, %s", op, m.symbol(f, c), m.r(a), m.r(d))
}

func (m *x86) constant(f *function, d vec, c constant) {
	f.emit("VMOVUPS %s, %s", m.symbol(f, c), m.r(d))
}
func (m *x86) addConstant(f *function, d, a vec, c constant) { m.withConstant(f, "VADDPS", d, a, c) }
func (m *x86) mulConstant(f *function, d, a vec, c constant) { m.withConstant(f, "VMULPS", d, a, c) }
func (m *x86) fnmaConstant(f *function, sum, a vec, c constant) {
	m.withConstant(f, "VFNMADD231PS", sum, a, c)
}
func (m *x86) horner(f *function, t, x vec, c constant, _ vec) {
	m.withConstant(f, "VFMADD213PS", t, x, c)
}
func (m *x86) round(f *function, d, a vec) {
	op := "VROUNDPS"
	if m.lanes == 16 {
		op = "VRNDSCALEPS"
	}
	f.emit("%s $0, %s, %s", op, m.r(a), m.r(d))
}
func (m *x86) addExponent(f *function, d, n vec) {
	f.emit("VCVTPS2DQ %s, %s\nVPSLLD $23, %s, %s\nVPADDD %s, %s, %s", m.r(n), m.r(n), m.r(n), m.r(n), m.r(n), m.r(d), m.r(d))
}

// zeroBelow compares with predicate 5, not less than, which is true where x is not a number.
func (m *x86) zeroBelow(f *function, d, x vec, c constant, scratch vec) {
	if m.lanes == 16 {
		f.emit("VCMPPS $5, %s, %s, K1\nVMOVAPS.Z %s, K1, %s", m.symbol(f, c), m.r(x), m.r(d), m.r(d))
		return
	}
	f.emit("VCMPPS $5, %s, %s, %s\nVANDPS %s, %s, %s", m.symbol(f, c), m.r(x), m.r(scratch), m.r(scratch), m.r(d), m.r(d))
}

func (m *x86) fold(f *function, op string, sums []vec, t vec) {
	ins := map[string]string{"add": "VADDPS", "max": "VMAXPS"}[op]
	s := sums[0]
	if m.lanes == 16 {
		f.emit("VEXTRACTF64X4 $1, Z%d, Y%d\n%s Y%d, Y%d, Y%d", s, t, ins, t, s, s)
	} else {
		f.emit("%s Y%d, Y%d, Y%d", ins, sums[1], s, s)
	}
	f.emit("VEXTRACTF128 $1, Y%d, X%d\n%s X%d, X%d, X%d", s, t, ins, t, s, s)
	f.emit("VPERMILPS $0x4E, X%d, X%d\n%s X%d, X%d, X%d", s, t, ins, t, s, s)
	f.emit("VPERMILPS $0xB1, X%d, X%d\n%s X%d, X%d, X%d", s, t, ins, t, s, s)
}
func (m *x86) result(f *function, v vec) { f.emit("VMOVSS X%d, %s", v, f.slot("ret")) }
func (m *x86) storeLane(f *function, v vec, ptr, off int) {
	f.emit("VMOVSS X%d, %s", v, m.memory(ptr, off))
}
func (m *x86) end(f *function) { f.emit("VZEROUPPER\nRET") }
