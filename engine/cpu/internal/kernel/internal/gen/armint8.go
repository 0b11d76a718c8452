package main

import "fmt"

// Encodings for Int8, as in arm.go.
const (
	armSDOT   = 0x4F80E000 // Vd.4S += Vn.16B · the four bytes of Vm that the index chooses
	armSMULL  = 0x0E20C000 // Vd.8H = Vn.8B · Vm.8B
	armSMULL2 = 0x4E20C000 // the same of the upper halves
	armSMLAL  = 0x0E208000 // Vd.8H += Vn.8B · Vm.8B
	armSMLAL2 = 0x4E208000
	armADDP   = 0x4EA0BC00 // Vd = the sums of neighbours of Vn, of Vm
	armSADALP = 0x4E606800 // Vd.4S += the sums of neighbours of Vn.8H
	armSCVTF  = 0x4E21D800
	armFABS   = 0x4EA0F800
	armFMAXV  = 0x6E30F800
	armADDV   = 0x4EB1B800
	armXTN4   = 0x0E612800 // 4S to the lower 4H
	armXTN4U  = 0x4E612800 // to the upper
	armXTN8   = 0x0E212800 // 8H to the lower 8B
	armXTN8U  = 0x4E212800
)

// armInt8Tiles emits the Int8 tiles, with the dot product instruction or without.
func (s *set) armInt8Tiles(dot bool) {
	for rows := 1; rows < len(s.panels); rows++ {
		t := armInt8Tile{f: s.function("", fmt.Sprintf("Tile%d", rows), false, int8TileArgs()...), m: s.m.(*arm), rows: rows, dot: dot}
		t.emit()
	}
}

// armInt8Tile is one tile under construction. R0 counts blocks; R1 to R4 point to the rows of the
// activations, R10 to R13 to what of them comes next; R8 points to the weights, R5 to their
// integers; R14 to C, R15 is its stride.
type armInt8Tile struct {
	f    *function
	m    *arm
	rows int
	dot  bool
}

// Registers: V0 to V15 are the sums, V16 and up are the rest.
const armInt8Free = 16

func (t *armInt8Tile) emit() {
	f := t.f
	f.emit("MOVD blocks+0(FP), R0\nMOVD a+8(FP), R1\nMOVD ars+16(FP), R7\nMOVD b+24(FP), R8\nMOVD ldc+40(FP), R15")
	for row := 1; row < t.rows; row++ {
		f.emit("ADD R7, R%d, R%d", row, row+1)
	}
	f.emit("%s:\nADD $%d, R8, R5", f.label("block"), weightQ)
	for row := range t.rows {
		f.emit("ADD $%d, R%d, R%d", inputQ, row+1, row+10)
	}
	if t.dot {
		t.dots()
	} else {
		t.products()
	}
	f.emit("MOVD c+32(FP), R14")
	for row := range t.rows {
		t.add(row)
	}
	for row := range t.rows {
		f.emit("ADD $%d, R%d, R%d", inputSize, row+1, row+1)
	}
	f.emit("ADD $%d, R8, R8\nSUBS $1, R0, R0\nBNE %s\nRET", weightSize, f.label("block"))
}

// dots sums a block into four registers a row, from the offset on.
func (t *armInt8Tile) dots() {
	f := t.f
	for row := range t.rows {
		f.emit("ADD $%d, R%d, R9\nVLD1R (R9), [V%d.S4]", inputOffset, row+1, 4*row)
		for col := 1; col < 4; col++ {
			t.m.move(f, vec(4*row+col), vec(4*row))
		}
	}
	w, a := vec(armInt8Free), vec(armInt8Free+4)
	for quad := range int8Quads {
		if quad%4 == 0 {
			for row := range t.rows {
				f.emit("FMOVQ %d(R%d), F%d", 4*quad, row+10, a+vec(row))
			}
		}
		for col := range 4 {
			f.emit("FMOVQ %d(R5), F%d", 64*quad+16*col, w+vec(col))
		}
		index := uint32(quad%4&1)<<21 | uint32(quad%4>>1)<<11
		for row := range t.rows {
			for col := range 4 {
				t.m.op3(f, fmt.Sprintf("SDOT [%d]", quad%4), armSDOT|index, vec(4*row+col), w+vec(col), a+vec(row))
			}
		}
	}
}

// products sums a block into eight registers a row, of two columns each: two groups of four inputs
// are multiplied and added in 16 bits, at most 2·127·127, then in 32. The registers of a row are
// then folded to four and the offset is added.
func (t *armInt8Tile) products() {
	f := t.f
	for row := range t.rows {
		for i := range 8 {
			t.m.zero(f, vec(8*row+i))
		}
	}
	a, w, p := vec(armInt8Free), vec(armInt8Free+4), vec(armInt8Free+6)
	for quad := 0; quad < int8Quads; quad += 2 {
		for row := range t.rows {
			for i := range 2 {
				f.emit("VLD1R (R%d), [V%d.S4]\nADD $4, R%d, R%d", row+10, a+vec(2*row+i), row+10, row+10)
			}
		}
		for col := range 4 {
			f.emit("FMOVQ %d(R5), F%d\nFMOVQ %d(R5), F%d", 64*quad+16*col, w, 64*quad+64+16*col, w+1)
			for row := range t.rows {
				x, low, high := a+vec(2*row), p+vec(2*row), p+vec(2*row+1)
				t.m.op3(f, "SMULL", armSMULL, low, w, x)
				t.m.op3(f, "SMULL2", armSMULL2, high, w, x)
				t.m.op3(f, "SMLAL", armSMLAL, low, w+1, x+1)
				t.m.op3(f, "SMLAL2", armSMLAL2, high, w+1, x+1)
				t.m.op2(f, "SADALP", armSADALP, vec(8*row+2*col), low)
				t.m.op2(f, "SADALP", armSADALP, vec(8*row+2*col+1), high)
			}
		}
	}
	for row := range t.rows {
		f.emit("ADD $%d, R%d, R9\nVLD1R (R9), [V%d.S4]", inputOffset, row+1, a)
		for col := range 4 {
			sum := vec(8*row + 2*col)
			t.m.op3(f, "ADDP", armADDP, sum, sum, sum+1)
			t.m.op3(f, "ADD", armADD, sum, sum, a)
		}
	}
}

// add scales the sums of a row and adds them to C.
func (t *armInt8Tile) add(row int) {
	f := t.f
	scale, c, w := vec(armInt8Free), vec(armInt8Free+1), vec(armInt8Free+2)
	f.emit("VLD1R (R%d), [V%d.S4]", row+1, scale)
	for col := range 4 {
		sum := vec(4*row + col)
		if !t.dot {
			sum = vec(8*row + 2*col)
		}
		t.m.op2(f, "SCVTF", armSCVTF, sum, sum)
		t.m.mul(f, sum, sum, scale)
		f.emit("FMOVQ %d(R14), F%d\nFMOVQ %d(R8), F%d", 16*col, c, 16*col, w)
		t.m.fma(f, c, sum, w)
		f.emit("FMOVQ F%d, %d(R14)", c, 16*col)
	}
	if row < t.rows-1 {
		f.emit("ADD R15, R14, R14")
	}
}

// armQuantize emits the quantisation of blocks of 64 floats, which are V0 to V15.
func (s *set) armQuantize() {
	m := s.m.(*arm)
	f := s.function("quantize", "quantize", false, quantizeArgs()...)
	tiny := m.register(f, float("tiny", 1e-30))
	const top, x, limit, factor, scale, spread = 16, 17, 18, 19, 20, 21
	f.emit("MOVD dst+0(FP), R0\nMOVD src+8(FP), R1\nFMOVS limit+16(FP), F%d\nMOVD blocks+24(FP), R2\n%s:", limit, f.label("loop"))
	for i := range vec(16) {
		f.emit("FMOVQ %d(R1), F%d", 16*i, i)
	}
	m.op2(f, "FABS", armFABS, top, 0)
	for i := vec(1); i < 16; i++ {
		m.op2(f, "FABS", armFABS, x, i)
		m.maximum(f, top, top, x)
	}
	m.op2(f, "FMAXV", armFMAXV, top, top)
	f.emit("FMAXS F%d, F%d, F%d\nFDIVS F%d, F%d, F%d\nFDIVS F%d, F%d, F%d", tiny, top, x, x, limit, factor, limit, x, scale)
	f.emit("FSUBS F%d, F%d, F%d\nFADDS F%d, F%d, F%d\nFMOVS F%d, (R0)\nVDUP V%d.S[0], V%d.S4", top, top, spread, spread, scale, scale, scale, factor, factor)
	for i := range vec(16) {
		m.mul(f, i, i, factor)
		m.op2(f, "FCVTNS", armFCVTNS, i, i)
	}
	m.op3(f, "ADD", armADD, x, 0, 1)
	for i := vec(2); i < 16; i++ {
		m.op3(f, "ADD", armADD, x, x, i)
	}
	m.op2(f, "ADDV", armADDV, x, x)
	f.emit("FMOVS F%d, R9\nLSLW $6, R9, R9\nNEGW R9, R9\nMOVW R9, %d(R0)\nADD $%d, R0, R3", x, inputOffset, inputQ)
	for i := vec(0); i < 16; i += 4 {
		m.op2(f, "XTN", armXTN4, 22, i)
		m.op2(f, "XTN2", armXTN4U, 22, i+1)
		m.op2(f, "XTN", armXTN4, 23, i+2)
		m.op2(f, "XTN2", armXTN4U, 23, i+3)
		m.op2(f, "XTN", armXTN8, 24, 22)
		m.op2(f, "XTN2", armXTN8U, 24, 23)
		f.emit("FMOVQ F24, %d(R3)", 4*i)
	}
	f.emit("ADD $256, R1, R1\nADD $%d, R0, R0\nSUBS $1, R2, R2\nBNE %s\nRET", inputSize, f.label("loop"))
}
