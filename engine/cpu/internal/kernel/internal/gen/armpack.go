package main

import (
	"fmt"
	"strings"
)

// armPacks emits the transposing pack and the bf16 conversions.
func (s *set) armPacks() {
	s.armTranspose()
	s.armDeal("dealTile", len(s.panels)-1)
	s.armDeal("dealPanel", panelColumns)
	s.armToBF16()
	s.armFromBF16()
}

// armTranspose emits dst[16k+r] = src[r*lds+k] for 16 rows and n columns, n a multiple of 4, by
// blocks of 4 by 4.
func (s *set) armTranspose() {
	m := s.m.(*arm)
	f := s.function("transpose", "transpose", false, arg{"dst", "unsafe.Pointer"}, arg{"src", "unsafe.Pointer"}, arg{"lds", "int"}, arg{"n", "int"})
	f.emit("MOVD dst+0(FP), R0\nMOVD src+8(FP), R1\nMOVD lds+16(FP), R2\nLSL $2, R2, R2\nMOVD n+24(FP), R3\nLSR $2, R3, R3\nMOVD $4, R4")
	f.emit("%s:\nMOVD R0, R5\nMOVD R3, R6\nMOVD R1, R7\nADD R2, R7, R8\nADD R2, R8, R9\nADD R2, R9, R10\nADD R2, R10, R1\n%s:", f.label("group"), f.label("loop"))
	for i := range 4 {
		f.emit("FMOVQ (R%d), F%d\nADD $16, R%d, R%d", 7+i, i, 7+i, 7+i)
	}
	m.op3(f, "ZIP1", armZIP1, 4, 0, 2)
	m.op3(f, "ZIP2", armZIP2, 5, 0, 2)
	m.op3(f, "ZIP1", armZIP1, 6, 1, 3)
	m.op3(f, "ZIP2", armZIP2, 7, 1, 3)
	m.op3(f, "ZIP1", armZIP1, 0, 4, 6)
	m.op3(f, "ZIP2", armZIP2, 1, 4, 6)
	m.op3(f, "ZIP1", armZIP1, 2, 5, 7)
	m.op3(f, "ZIP2", armZIP2, 3, 5, 7)
	for i := range 4 {
		f.emit("FMOVQ F%d, %d(R5)", i, 64*i)
	}
	f.emit("ADD $256, R5, R5\nSUBS $1, R6, R6\nBNE %s\nADD $16, R0, R0\nSUBS $1, R4, R4\nBNE %s\nRET", f.label("loop"), f.label("group"))
}

// armDeal emits what x86Deal does.
func (s *set) armDeal(name string, size int) {
	f := s.function(name, name, false, dealArgs()...)
	f.emit("MOVD dst+0(FP), R0\nMOVD src+8(FP), R1\nMOVD lds+16(FP), R2\nMOVD n+24(FP), R3\nMOVD stride+40(FP), R4")
	f.emit("%s:\nMOVD R1, R5\nMOVD R0, R6\nMOVD groups+32(FP), R7\n%s:", f.label("row"), f.label("group"))
	var moves []string
	for at := 0; at < size; {
		floats, move := 4, "FMOVQ"
		if size-at < floats {
			floats, move = 2, "FMOVD"
		}
		f.emit("%s %d(R5), F%d", move, 4*at, len(moves))
		moves = append(moves, fmt.Sprintf("%s F%d, %d(R6)", move, len(moves), 4*at))
		at += floats
	}
	f.emit("%s\nADD $%d, R5, R5\nADD R4, R6, R6\nSUBS $1, R7, R7\nBNE %s", strings.Join(moves, "\n"), 4*size, f.label("group"))
	f.emit("ADD R2, R1, R1\nADD $%d, R0, R0\nSUBS $1, R3, R3\nBNE %s\nRET", 4*size, f.label("row"))
}

// armToBF16 emits the rounding of 16 floats at a time: u + 0x7fff + bit 16, or a quiet NaN, its
// upper half.
func (s *set) armToBF16() {
	m := s.m.(*arm)
	f := s.function("toBF16", "toBF16", false, arg{"dst", "*uint16"}, arg{"src", "*float32"}, arg{"n", "int"})
	low, bias, quiet := m.register(f, constant{"bit0", 1}), m.register(f, constant{"halfBelow", 0x7fff}), m.register(f, constant{"quiet", 0x400000})
	f.emit("MOVD dst+0(FP), R0\nMOVD src+8(FP), R1\nMOVD n+16(FP), R2\nLSR $4, R2, R2\n%s:", f.label("loop"))
	for i := range 4 {
		const x, t, number = 0, 1, 2
		f.emit("FMOVQ %d(R1), F%d", 16*i, x)
		m.op2(f, "USHR $16,", armUSHR16, t, x)
		m.op3(f, "AND", armAND, t, t, low)
		m.op3(f, "ADD", armADD, t, t, bias)
		m.op3(f, "ADD", armADD, t, t, x)
		m.op3(f, "FCMEQ", armFCMEQ, number, x, x)
		m.op2(f, "NOT", armNOT, number, number)
		m.op3(f, "ORR", armORR, x, x, quiet)
		m.op3(f, "BIT", armBIT, t, x, number)
		narrow := vec(4 + i/2)
		if i%2 == 0 {
			m.op2(f, "SHRN $16,", armSHRN, narrow, t)
		} else {
			m.op2(f, "SHRN2 $16,", armSHRN2, narrow, t)
		}
	}
	f.emit("FMOVQ F4, (R0)\nFMOVQ F5, 16(R0)\nADD $64, R1, R1\nADD $32, R0, R0\nSUBS $1, R2, R2\nBNE %s\nRET", f.label("loop"))
}

// armFromBF16 emits the widening of 16 words at a time.
func (s *set) armFromBF16() {
	m := s.m.(*arm)
	f := s.function("fromBF16", "fromBF16", false, arg{"dst", "*float32"}, arg{"src", "*uint16"}, arg{"n", "int"})
	f.emit("MOVD dst+0(FP), R0\nMOVD src+8(FP), R1\nMOVD n+16(FP), R2\nLSR $4, R2, R2\n%s:\nFMOVQ (R1), F0\nFMOVQ 16(R1), F1", f.label("loop"))
	for i := range 2 {
		m.op2(f, "SHLL $16,", armSHLL, 2, vec(i))
		m.op2(f, "SHLL2 $16,", armSHLL2, 3, vec(i))
		f.emit("FMOVQ F2, %d(R0)\nFMOVQ F3, %d(R0)", 32*i, 32*i+16)
	}
	f.emit("ADD $32, R1, R1\nADD $64, R0, R0\nSUBS $1, R2, R2\nBNE %s\nRET", f.label("loop"))
}
