package main

import "fmt"

// vnniTiles emits the Int8 tiles for AVX-512 with VNNI: vpdpbusd multiplies unsigned bytes, the
// weights, by signed ones and sums four products in 32 bits.
func (s *set) vnniTiles() {
	for rows := 1; rows < len(s.panels); rows++ {
		t := vnniTile{f: s.function("", fmt.Sprintf("Tile%d", rows), false, int8TileArgs()...), rows: rows}
		t.emit()
	}
	s.borrow("quantize", "avx2Int8")
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
