package main

import "fmt"

// arm emits NEON. Go's assembler lacks most of its floating-point vector instructions, so they are
// encoded here from the Arm architecture reference manual (A64, advanced SIMD).
type arm struct{}

// Encodings of three-register operations on four 32-bit lanes: Vm in bits 16-20, Vn in 5-9, Vd in
// 0-4.
const (
	armFADD  = 0x4E20D400
	armFSUB  = 0x4EA0D400
	armFMUL  = 0x6E20DC00
	armFDIV  = 0x6E20FC00
	armFMAX  = 0x4E20F400
	armFMIN  = 0x4EA0F400
	armFMLA  = 0x4E20CC00
	armFMLS  = 0x4EA0CC00
	armFCMGT = 0x6EA0E400 // Vd = Vn > Vm
	armADD   = 0x4EA08400
	armBIC   = 0x4E601C00 // Vd = Vn &^ Vm
	armBIT   = 0x6EA01C00 // Vd = Vn where Vm is set
	armAND   = 0x4E201C00
	armORR   = 0x4EA01C00
	armZIP1  = 0x4E803800
	armZIP2  = 0x4E807800
	armEXT8  = 0x6E004000 // Vd = the upper half of Vn, the lower half of Vm
	armEXT4  = 0x6E002000 // Vd = lanes 1 to 3 of Vn, lane 0 of Vm
	armFCMEQ = 0x4E20E400
)

// Encodings of two-register operations: Vn in bits 5-9, Vd in 0-4.
const (
	armFSQRT  = 0x6EA1F800
	armFRINTN = 0x4E218800
	armFCVTNS = 0x4E21A800
	armSHL23  = 0x4F375400
	armSHL16  = 0x4F305400
	armUSHR16 = 0x6F300400
	armSHLL   = 0x2E613800 // widens the lower four 16-bit lanes, shifted left by 16
	armSHLL2  = 0x6E613800 // the same for the upper four
	armSHRN   = 0x0F108400 // narrows to the upper 16 bits of each lane, into the lower half
	armSHRN2  = 0x4F108400 // the same into the upper half
	armNOT    = 0x6E205800
)

func (m *arm) width() int         { return 4 }
func (m *arm) constantLanes() int { return 4 }

// op3 emits d = n op m, op2 d = op n.
func (*arm) op3(f *function, name string, code uint32, d, n, m vec) {
	f.emit("WORD $0x%08x // %s V%d, V%d, V%d", code|uint32(m)<<16|uint32(n)<<5|uint32(d), name, d, n, m)
}
func (*arm) op2(f *function, name string, code uint32, d, n vec) {
	f.emit("WORD $0x%08x // %s V%d, V%d", code|uint32(n)<<5|uint32(d), name, d, n)
}

func (m *arm) hoist(f *function, h hoist) string {
	return fmt.Sprintf("\tMOVD $%s<>(SB), R9\n\tFMOVQ (R9), F%d\n", f.set.constant(h.c), h.v)
}

// register is where the constant is kept; hoisted constants fill the registers from 31 down.
func (m *arm) register(f *function, c constant) vec {
	for _, h := range f.hoists {
		if h.c == c {
			return h.v
		}
	}
	f.set.constant(c)
	h := hoist{c, vec(31 - len(f.hoists))}
	if h.v <= scratchOf(m) {
		panic("gen: " + f.name + " has more constants than NEON has registers")
	}
	f.hoists = append(f.hoists, h)
	return h.v
}

func (m *arm) pointerArg(f *function, i int, name string) { f.emit("MOVD %s, R%d", f.slot(name), i) }
func (m *arm) countArg(f *function, name string)          { f.emit("MOVD %s, R6\nLSR $4, R6, R6", f.slot(name)) }
func (m *arm) floatArg(f *function, v vec, name string) {
	f.emit("FMOVS %s, F%d\nVDUP V%d.S[0], V%d.S4", f.slot(name), v, v, v)
}
func (m *arm) floatField(f *function, v vec, ptr, off int) {
	f.emit("FMOVS %d(R%d), F%d\nVDUP V%d.S[0], V%d.S4", off, ptr, v, v, v)
}
func (m *arm) loop(f *function, label string) { f.emit("%s:", label) }
func (m *arm) next(f *function, label string, pointers int) {
	for p := range pointers {
		f.emit("ADD $64, R%d, R%d", p, p)
	}
	f.emit("SUBS $1, R6, R6\nBNE %s", label)
}

func (m *arm) load(f *function, v vec, ptr, off int)  { f.emit("FMOVQ %d(R%d), F%d", off, ptr, v) }
func (m *arm) store(f *function, v vec, ptr, off int) { f.emit("FMOVQ F%d, %d(R%d)", v, off, ptr) }
func (m *arm) zero(f *function, v vec)                { f.emit("VEOR V%d.B16, V%d.B16, V%d.B16", v, v, v) }
func (m *arm) move(f *function, d, a vec)             { m.op3(f, "ORR", armORR, d, a, a) }
func (m *arm) add(f *function, d, a, b vec)           { m.op3(f, "FADD", armFADD, d, a, b) }
func (m *arm) sub(f *function, d, a, b vec)           { m.op3(f, "FSUB", armFSUB, d, a, b) }
func (m *arm) mul(f *function, d, a, b vec)           { m.op3(f, "FMUL", armFMUL, d, a, b) }
func (m *arm) div(f *function, d, a, b vec)           { m.op3(f, "FDIV", armFDIV, d, a, b) }
func (m *arm) maximum(f *function, d, a, b vec)       { m.op3(f, "FMAX", armFMAX, d, a, b) }
func (m *arm) minimum(f *function, d, a, b vec)       { m.op3(f, "FMIN", armFMIN, d, a, b) }
func (m *arm) sqrt(f *function, d, a vec)             { m.op2(f, "FSQRT", armFSQRT, d, a) }
func (m *arm) fma(f *function, sum, a, b vec)         { m.op3(f, "FMLA", armFMLA, sum, a, b) }
func (m *arm) fnma(f *function, sum, a, b vec)        { m.op3(f, "FMLS", armFMLS, sum, a, b) }

func (m *arm) constant(f *function, d vec, c constant)       { m.move(f, d, m.register(f, c)) }
func (m *arm) addConstant(f *function, d, a vec, c constant) { m.add(f, d, a, m.register(f, c)) }
func (m *arm) mulConstant(f *function, d, a vec, c constant) { m.mul(f, d, a, m.register(f, c)) }
func (m *arm) fnmaConstant(f *function, sum, a vec, c constant) {
	m.fnma(f, sum, a, m.register(f, c))
}
func (m *arm) horner(f *function, t, x vec, c constant, scratch vec) {
	m.constant(f, scratch, c)
	m.fma(f, scratch, t, x)
	m.move(f, t, scratch)
}
func (m *arm) round(f *function, d, a vec) { m.op2(f, "FRINTN", armFRINTN, d, a) }
func (m *arm) addExponent(f *function, d, n vec) {
	m.op2(f, "FCVTNS", armFCVTNS, n, n)
	m.op2(f, "SHL $23,", armSHL23, n, n)
	m.op3(f, "ADD", armADD, d, d, n)
}
func (m *arm) zeroBelow(f *function, d, x vec, c constant, scratch vec) {
	m.op3(f, "FCMGT", armFCMGT, scratch, m.register(f, c), x)
	m.op3(f, "BIC", armBIC, d, d, scratch)
}

func (m *arm) fold(f *function, op string, sums []vec, t vec) {
	combine := m.add
	if op == "max" {
		combine = m.maximum
	}
	s := sums[0]
	combine(f, s, s, sums[2])
	combine(f, sums[1], sums[1], sums[3])
	combine(f, s, s, sums[1])
	m.op3(f, "EXT $8,", armEXT8, t, s, s)
	combine(f, s, s, t)
	m.op3(f, "EXT $4,", armEXT4, t, s, s)
	combine(f, s, s, t)
}
func (m *arm) result(f *function, v vec)                  { f.emit("FMOVS F%d, %s", v, f.slot("ret")) }
func (m *arm) storeLane(f *function, v vec, ptr, off int) { f.emit("FMOVS F%d, %d(R%d)", v, off, ptr) }
func (m *arm) end(f *function)                            { f.emit("RET") }
