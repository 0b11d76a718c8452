package main

import "fmt"

// vnniTiles emits the Int8 tiles for AVX-512 with VNNI: vpdpbusd multiplies unsigned bytes, the
// weights, by signed ones and sums four products in 32 bits.
func (s *set) vnniTiles() {
	for rows := 1; rows < len(s.panels); rows++ {
		t := vnniTile{f: s.function("", fmt.Sprintf("Tile%d", rows), false, int8TileArgs()...), rows: rows}
		t.emit()
	}
}

// vnniTile is one tile under construction. CX counts blocks; AX, SI, DI and R9 point to rows 0, 3,
// 6 and 9 of the activations, BX to the weights, DX to C.
type vnniTile struct {
	f    *function
	rows int
}

// parts is how many sums a row has: the instruction takes five cycles, and two begin in each, so
// that ten sums keep it busy.
func (t *vnniTile) parts() int {
	switch {
	case t.rows <= 2:
		return 4
	case t.rows <= 5:
		return 2
	}
	return 1
}

func (t *vnniTile) sum(row, quad int) int { return row*t.parts() + quad%t.parts() }

func (t *vnniTile) a(row, off int) string {
	return fmt.Sprintf("%d(%s)%s", off, rowBases[row/3], []string{"", "(R8*1)", "(R8*2)"}[row%3])
}

func (t *vnniTile) emit() {
	f := t.f
	f.emit("MOVQ blocks+0(FP), CX\nMOVQ a+8(FP), AX\nMOVQ ars+16(FP), R8\nMOVQ b+24(FP), BX\nMOVQ ldc+40(FP), R13")
	if t.rows > 3 {
		f.emit("LEAQ (R8)(R8*2), R14")
	}
	for i := 3; i < t.rows; i += 3 {
		f.emit("LEAQ (%s)(R14*1), %s", rowBases[i/3-1], rowBases[i/3])
	}
	f.emit("PCALIGN $32\n%s:", f.label("block"))
	for row := range t.rows {
		f.emit("VPBROADCASTD %s, Z%d", t.a(row, inputOffset), t.sum(row, 0))
		for part := 1; part < t.parts(); part++ {
			v := t.sum(row, part)
			f.emit("VPXORD Z%d, Z%d, Z%d", v, v, v)
		}
	}
	for quad := range int8Quads {
		w := 16 + quad%4
		f.emit("PREFETCHT0 %d(BX)\nVMOVDQU32 %d(BX), Z%d", 2048+weightQ+64*quad, weightQ+64*quad, w)
		for row := range t.rows {
			f.emit("VPDPBUSD.BCST %s, Z%d, Z%d", t.a(row, inputQ+4*quad), w, t.sum(row, quad))
		}
	}
	f.emit("MOVQ c+32(FP), DX")
	for row := range t.rows {
		t.add(row)
	}
	for i := 0; i < t.rows; i += 3 {
		f.emit("ADDQ $%d, %s", inputSize, rowBases[i/3])
	}
	f.emit("ADDQ $%d, BX\nDECQ CX\nJNZ %s\nVZEROUPPER\nRET", weightSize, f.label("block"))
}

// add scales the sum of a row and adds it to C.
func (t *vnniTile) add(row int) {
	v := t.sum(row, 0)
	for part := 1; part < t.parts(); part++ {
		t.f.emit("VPADDD Z%d, Z%d, Z%d", t.sum(row, part), v, v)
	}
	t.f.emit("VCVTDQ2PS Z%d, Z%d\nVMULPS.BCST %s, Z%d, Z%d\nVMOVUPS (DX), Z20\nVFMADD231PS (BX), Z%d, Z20\nVMOVUPS Z20, (DX)", v, v, t.a(row, 0), v, v, v)
	if row < t.rows-1 {
		t.f.emit("ADDQ R13, DX")
	}
}

// vnniQuantize emits the quantisation of blocks of 64 floats, which are Z0 to Z3. The integers are
// added up in Z4.
func (s *set) vnniQuantize() {
	f := s.function("quantize", "quantize", false, quantizeArgs()...)
	tiny, magnitude := s.constant(float("tiny", 1e-30)), s.constant(constant{"magnitude", 0x7fffffff})
	f.emit("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nVBROADCASTSS limit+16(FP), X15\nMOVQ blocks+24(FP), CX")
	f.emit("VMOVUPS %s<>(SB), Z14\nVMOVUPS %s<>(SB), X13\n%s:", magnitude, tiny, f.label("loop"))
	for i := range 4 {
		f.emit("VMOVUPS %d(SI), Z%d\nVPANDD Z%d, Z14, Z%d", 64*i, i, i, 4+i)
	}
	f.emit("VPMAXSD Z5, Z4, Z8\nVPMAXSD Z7, Z6, Z9\nVPMAXSD Z9, Z8, Z8")
	foldInt8(f, "VPMAXSD", 8, 9)
	f.emit("VMAXPS X13, X8, X9\nVDIVPS X9, X15, X10\nVBROADCASTSS X10, Z10")
	f.emit("VDIVPS X15, X9, X9\nVSUBPS X8, X8, X8\nVADDPS X8, X9, X9\nVMOVSS X9, (DI)")
	for i := range 4 {
		f.emit("VMULPS Z10, Z%d, Z%d\nVCVTPS2DQ Z%d, Z%d\nVPMOVSDB Z%d, %d(DI)", i, i, i, i, i, inputQ+16*i)
	}
	f.emit("VPADDD Z1, Z0, Z4\nVPADDD Z3, Z2, Z5\nVPADDD Z5, Z4, Z4")
	foldInt8(f, "VPADDD", 4, 5)
	f.emit("VPSLLD $6, X4, X4\nVXORPS X5, X5, X5\nVPSUBD X4, X5, X4\nVMOVSS X4, %d(DI)", inputOffset)
	f.emit("ADDQ $256, SI\nADDQ $%d, DI\nDECQ CX\nJNZ %s\nVZEROUPPER\nRET", inputSize, f.label("loop"))
}

// foldInt8 folds the 16 lanes of a register to one; t is lost.
func foldInt8(f *function, op string, v, t int) {
	f.emit("VEXTRACTF64X4 $1, Z%d, Y%d\n%s Y%d, Y%d, Y%d", v, t, op, t, v, v)
	f.emit("VEXTRACTF128 $1, Y%d, X%d\n%s X%d, X%d, X%d", v, t, op, t, v, v)
	for _, order := range []string{"$0x4E", "$0xB1"} {
		f.emit("VPERMILPS %s, X%d, X%d\n%s X%d, X%d, X%d", order, v, t, op, t, v, v)
	}
}
