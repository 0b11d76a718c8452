package main

import (
	"fmt"
	"strings"
)

// x86Packs emits the transposing pack and the bf16 conversions, for AVX2.
func (s *set) x86Packs() {
	s.x86Transpose()
	s.x86ToBF16()
	s.x86FromBF16()
}

// x86Transpose emits dst[16k+r] = src[r*lds+k] for 16 rows and n columns, n a multiple of 8, by
// blocks of 8 by 8.
func (s *set) x86Transpose() {
	f := s.function("transpose", "transpose", false, arg{"dst", "unsafe.Pointer"}, arg{"src", "unsafe.Pointer"}, arg{"lds", "int"}, arg{"n", "int"})
	f.emit("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ lds+16(FP), R9\nSHLQ $2, R9\nLEAQ (R9)(R9*2), R10\nMOVQ n+24(FP), R8\nSHRQ $3, R8\nMOVQ $2, R12")
	f.emit("%s:\nMOVQ R8, CX\nMOVQ DI, DX\nMOVQ SI, AX\nLEAQ (SI)(R9*4), BX\n%s:", f.label("half"), f.label("loop"))
	for i := range 8 {
		base := []string{"AX", "BX"}[i/4]
		f.emit("VMOVUPS (%s)%s, Y%d", base, []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[i%4], i)
	}
	for i := 0; i < 8; i += 2 {
		f.emit("VUNPCKLPS Y%d, Y%d, Y%d\nVUNPCKHPS Y%d, Y%d, Y%d", i+1, i, 8+i, i+1, i, 9+i)
	}
	for half := range 2 {
		low := 8 + 4*half
		for pair := range 2 {
			f.emit("VSHUFPS $0x44, Y%d, Y%d, Y%d\nVSHUFPS $0xEE, Y%d, Y%d, Y%d", low+2+pair, low+pair, 4*half+2*pair, low+2+pair, low+pair, 4*half+2*pair+1)
		}
	}
	for i := range 4 {
		f.emit("VPERM2F128 $0x20, Y%d, Y%d, Y%d\nVMOVUPS Y%d, %d(DX)", 4+i, i, 8+i, 8+i, 64*i)
	}
	for i := range 4 {
		f.emit("VPERM2F128 $0x31, Y%d, Y%d, Y%d\nVMOVUPS Y%d, %d(DX)", 4+i, i, 12+i, 12+i, 64*(4+i))
	}
	f.emit("ADDQ $512, DX\nADDQ $32, AX\nADDQ $32, BX\nDECQ CX\nJNZ %s", f.label("loop"))
	f.emit("ADDQ $32, DI\nLEAQ (SI)(R9*8), SI\nDECQ R12\nJNZ %s\nVZEROUPPER\nRET", f.label("half"))
}

// x86Deals emits the packs along rows: groups of the floats that a row of a tile or of a panel has.
func (s *set) x86Deals() {
	s.x86Deal("dealTile", len(s.panels)-1)
	s.x86Deal("dealPanel", panelColumns)
}

// x86Deal emits dst[g*stride + 4*size*k : …] = src[k*lds + 4*size*g : …], size floats each, for n rows
// k and some groups g. It moves whole registers, so nothing beyond the operands is touched.
func (s *set) x86Deal(name string, size int) {
	f := s.function(name, name, false, dealArgs()...)
	f.emit("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ lds+16(FP), R8\nMOVQ n+24(FP), CX\nMOVQ stride+40(FP), R9")
	f.emit("%s:\nMOVQ SI, R10\nMOVQ DI, R11\nMOVQ groups+32(FP), DX\n%s:", f.label("row"), f.label("group"))
	var moves []string
	for at := 0; at < size; {
		for _, r := range []struct {
			floats     int
			move, name string
		}{{16, "VMOVUPS", "Z"}, {8, "VMOVUPS", "Y"}, {4, "VMOVUPS", "X"}, {2, "VMOVSD", "X"}} {
			if r.floats > size-at || r.floats > s.m.width() {
				continue
			}
			v := fmt.Sprintf("%s%d", r.name, len(moves))
			f.emit("%s %d(R10), %s", r.move, 4*at, v)
			moves = append(moves, fmt.Sprintf("%s %s, %d(R11)", r.move, v, 4*at))
			at += r.floats
			break
		}
	}
	f.emit("%s\nADDQ $%d, R10\nADDQ R9, R11\nDECQ DX\nJNZ %s", strings.Join(moves, "\n"), 4*size, f.label("group"))
	f.emit("ADDQ R8, SI\nADDQ $%d, DI\nDECQ CX\nJNZ %s\nVZEROUPPER\nRET", 4*size, f.label("row"))
}

// x86ToBF16 emits the rounding of 16 floats at a time: u + 0x7fff + bit 16, or a quiet NaN, its
// upper half.
func (s *set) x86ToBF16() {
	f := s.function("toBF16", "toBF16", false, arg{"dst", "*uint16"}, arg{"src", "*float32"}, arg{"n", "int"})
	low, bias, quiet := s.constant(constant{"bit0", 1}), s.constant(constant{"halfBelow", 0x7fff}), s.constant(constant{"quiet", 0x400000})
	f.emit("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ n+16(FP), CX\nSHRQ $4, CX\nVMOVUPS %s<>(SB), Y13\nVMOVUPS %s<>(SB), Y14\nVMOVUPS %s<>(SB), Y15\n%s:", low, bias, quiet, f.label("loop"))
	for i := range 2 {
		x, t, nan := fmt.Sprintf("Y%d", 4*i), fmt.Sprintf("Y%d", 4*i+1), fmt.Sprintf("Y%d", 4*i+2)
		f.emit("VMOVUPS %d(SI), %s\nVPSRLD $16, %s, %s\nVPAND Y13, %s, %s\nVPADDD Y14, %s, %s\nVPADDD %s, %s, %s", 32*i, x, x, t, t, t, t, t, x, t, t)
		f.emit("VCMPPS $3, %s, %s, %s\nVPOR Y15, %s, %s\nVBLENDVPS %s, %s, %s, %s\nVPSRLD $16, %s, %s", x, x, nan, x, x, nan, x, t, t, t, t)
	}
	f.emit("VPACKUSDW Y5, Y1, Y1\nVPERMQ $0xD8, Y1, Y1\nVMOVUPS Y1, (DI)\nADDQ $64, SI\nADDQ $32, DI\nDECQ CX\nJNZ %s\nVZEROUPPER\nRET", f.label("loop"))
}

// x86FromBF16 emits the widening of 16 words at a time.
func (s *set) x86FromBF16() {
	f := s.function("fromBF16", "fromBF16", false, arg{"dst", "*float32"}, arg{"src", "*uint16"}, arg{"n", "int"})
	f.emit("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ n+16(FP), CX\nSHRQ $4, CX\n%s:", f.label("loop"))
	for i := range 2 {
		f.emit("VPMOVZXWD %d(SI), Y%d\nVPSLLD $16, Y%d, Y%d\nVMOVUPS Y%d, %d(DI)", 16*i, i, i, i, i, 32*i)
	}
	f.emit("ADDQ $32, SI\nADDQ $64, DI\nDECQ CX\nJNZ %s\nVZEROUPPER\nRET", f.label("loop"))
}
