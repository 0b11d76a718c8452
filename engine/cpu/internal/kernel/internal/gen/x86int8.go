package main

import "fmt"

// x86Int8 emits the Int8 kernels for AVX2.
func (s *set) x86Int8() {
	for rows := 1; rows < len(s.panels); rows++ {
		t := int8Tile{f: s.function("", fmt.Sprintf("Tile%d", rows), false, int8TileArgs()...), m: s.m.(*x86), rows: rows}
		t.emit()
	}
	s.x86Quantize()
}

// int8Tile is one tile under construction. CX counts blocks and DI the groups of a block; AX, and
// R8 with R14 as its triple, point to the rows of the activations; BX points to the weights; DX,
// and R13 with R9 as its triple, to C.
type int8Tile struct {
	f    *function
	m    *x86
	rows int
}

const int8Unroll = 4 // groups of an iteration

func (t *int8Tile) a(row, off int) string {
	return fmt.Sprintf("%d(AX)%s", off, []string{"", "(R8*1)", "(R8*2)", "(R14*1)"}[row])
}

func (t *int8Tile) c(row, off int) string {
	return fmt.Sprintf("%d(DX)%s", off, []string{"", "(R13*1)", "(R13*2)", "(R9*1)"}[row])
}

func (t *int8Tile) emit() {
	f := t.f
	f.emit("MOVQ blocks+0(FP), CX\nMOVQ a+8(FP), AX\nMOVQ ars+16(FP), R8\nMOVQ b+24(FP), BX\nMOVQ c+32(FP), DX\nMOVQ ldc+40(FP), R13")
	f.emit("LEAQ (R8)(R8*2), R14\nLEAQ (R13)(R13*2), R9\nVPCMPEQW Y15, Y15, Y15\nVPSRLW $15, Y15, Y15\n%s:", f.label("block"))
	for row := range t.rows {
		f.emit("VPBROADCASTD %s, Y%d\nVMOVDQA Y%d, Y%d", t.a(row, inputOffset), 2*row, 2*row, 2*row+1)
	}
	f.emit("LEAQ %d(BX), SI\nLEAQ %d(AX), R10\nMOVQ $%d, DI\nPCALIGN $32\n%s:", weightQ, inputQ, int8Quads/int8Unroll, f.label("quads"))
	for quad := range int8Unroll {
		t.quad(quad)
	}
	f.emit("ADDQ $%d, SI\nADDQ $%d, R10\nDECQ DI\nJNZ %s", 64*int8Unroll, 4*int8Unroll, f.label("quads"))
	for row := range t.rows {
		t.add(row)
	}
	f.emit("ADDQ $%d, AX\nADDQ $%d, BX\nDECQ CX\nJNZ %s\nVZEROUPPER\nRET", inputSize, weightSize, f.label("block"))
}

// quad adds the products of four inputs: pairs in 16 bits, then in 32.
func (t *int8Tile) quad(quad int) {
	f := t.f
	f.emit("PREFETCHT0 %d(SI)\nVMOVDQU %d(SI), Y8\nVMOVDQU %d(SI), Y9", 2048+64*quad, 64*quad, 64*quad+32)
	for row := range t.rows {
		f.emit("VPBROADCASTD %d(R10)%s, Y10", 4*quad, []string{"", "(R8*1)", "(R8*2)", "(R14*1)"}[row])
		for half := range 2 {
			sum, x := 2*row+half, 11+(2*row+half)%4
			f.emit("VPMADDUBSW Y10, Y%d, Y%d\nVPMADDWD Y15, Y%d, Y%d\nVPADDD Y%d, Y%d, Y%d", 8+half, x, x, x, x, sum, sum)
		}
	}
}

// add scales the sums of a row and adds them to C.
func (t *int8Tile) add(row int) {
	t.f.emit("VBROADCASTSS %s, Y10", t.a(row, 0))
	for half := range 2 {
		sum := 2*row + half
		t.f.emit("VCVTDQ2PS Y%d, Y%d\nVMULPS Y10, Y%d, Y%d\nVMOVUPS %s, Y11\nVFMADD231PS %d(BX), Y%d, Y11\nVMOVUPS Y11, %s",
			sum, sum, sum, sum, t.c(row, 32*half), 32*half, sum, t.c(row, 32*half))
	}
}

// x86Quantize emits the quantisation of blocks of 64 floats, for AVX2.
func (s *set) x86Quantize() {
	f := s.function("quantize", "quantize", false, quantizeArgs()...)
	tiny, magnitude := s.constant(float("tiny", 1e-30)), s.constant(constant{"magnitude", 0x7fffffff})
	f.emit("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nVMOVSS limit+16(FP), X15\nMOVQ blocks+24(FP), CX\nVMOVUPS %s<>(SB), Y14", magnitude)
	f.emit("VMOVUPS %s<>(SB), Y13\nMOVQ $0x0703060205010400, AX\nMOVQ AX, X12\nVPMOVZXBD X12, Y12\n%s:", tiny, f.label("loop"))
	for i := range 8 {
		f.emit("VMOVUPS %d(SI), Y%d", 32*i, i)
	}
	f.emit("VPAND Y0, Y14, Y8")
	for i := 1; i < 8; i++ {
		f.emit("VPAND Y%d, Y14, Y9\nVPMAXSD Y9, Y8, Y8", i)
	}
	f.emit("VEXTRACTI128 $1, Y8, X9\nVPMAXSD X9, X8, X8\nVPSHUFD $0x4E, X8, X9\nVPMAXSD X9, X8, X8\nVPSHUFD $0xB1, X8, X9\nVPMAXSD X9, X8, X8")
	f.emit("VMAXSS X13, X8, X9\nVDIVSS X9, X15, X10\nVDIVSS X15, X9, X9\nVSUBSS X8, X8, X8\nVADDSS X8, X9, X9\nVMOVSS X9, (DI)\nVBROADCASTSS X10, Y10")
	for i := range 8 {
		f.emit("VMULPS Y10, Y%d, Y%d\nVCVTPS2DQ Y%d, Y%d", i, i, i, i)
	}
	f.emit("VPCMPEQW Y11, Y11, Y11\nVPSRLW $15, Y11, Y11\nVPACKUSWB Y11, Y11, Y10") // words and bytes of 1
	for half := range 2 {
		v := 4 * half
		f.emit("VPACKSSDW Y%d, Y%d, Y%d\nVPACKSSDW Y%d, Y%d, Y%d\nVPACKSSWB Y%d, Y%d, Y%d\nVPERMD Y%d, Y12, Y%d", v+1, v, v, v+3, v+2, v+2, v+2, v, v, v, v)
		f.emit("VMOVDQU Y%d, %d(DI)\nVPMADDUBSW Y%d, Y10, Y%d\nVPMADDWD Y11, Y%d, Y%d", v, inputQ+32*half, v, v, v, v)
	}
	f.emit("VPADDD Y4, Y0, Y0\nVEXTRACTI128 $1, Y0, X1\nVPADDD X1, X0, X0\nVPSHUFD $0x4E, X0, X1\nVPADDD X1, X0, X0\nVPSHUFD $0xB1, X0, X1\nVPADDD X1, X0, X0")
	f.emit("VMOVD X0, AX\nNEGL AX\nSHLL $6, AX\nMOVL AX, %d(DI)\nADDQ $256, SI\nADDQ $%d, DI\nDECQ CX\nJNZ %s\nVZEROUPPER\nRET", inputOffset, inputSize, f.label("loop"))
}
