package main

import "fmt"

// tileArgs is the parameter list of package kernel's tileFunc.
func tileArgs() []arg {
	p := func(n string) arg { return arg{n, "unsafe.Pointer"} }
	i := func(n string) arg { return arg{n, "int"} }
	return []arg{i("groups"), i("kc"), p("a"), i("ars"), i("aks"), i("ags"), p("b"), i("bks"), i("bps"), i("ahead"), i("aheadStep"), p("c"), i("ldc"), i("accumulate")}
}

// x86Tiles emits every tile shape, for B in each storage.
func (s *set) x86Tiles() {
	for _, b := range storages {
		for rows := 1; rows < len(s.panels); rows++ {
			for panels := 1; panels <= s.panels[rows]; panels *= 2 {
				t := x86Tile{m: s.m.(*x86), rows: rows, panels: panels, storage: b}
				t.f = s.function("", tileName(rows, panels, b), false, tileArgs()...)
				t.emit()
			}
		}
	}
}

// x86Tile is one tile under construction. The arguments move on from group to group where they lie.
// CX counts k; AX, SI, DI and R9 point to A's rows 0, 3, 6 and 9; BX to B's row, SI to its panel 4
// where there are more (the rows are at most 3 then). DX and R13 are C and its stride first and
// last, in between what to prefetch, DI the same for panel 4, and its stride.
type x86Tile struct {
	f            *function
	m            *x86
	rows, panels int
	storage
}

var rowBases = []string{"AX", "SI", "DI", "R9"}

// parts is the registers per panel row.
func (t *x86Tile) parts() int { return 16 / t.m.lanes }

func (t *x86Tile) columns() int { return t.panels * t.parts() }

func (t *x86Tile) sum(row, col int) vec { return vec(row*t.columns() + col) }

func (t *x86Tile) emit() {
	f := t.f
	f.emit("MOVQ %s, BX\nADDQ BX, %s\n%s:", f.slot("b"), f.slot("ahead"), f.label("group"))
	f.emit("MOVQ %s, CX\nMOVQ %s, DX\nMOVQ %s, R13", f.slot("kc"), f.slot("c"), f.slot("ldc"))
	t.start()
	t.fetchNextC()
	f.emit("MOVQ %s, AX\nMOVQ %s, R8\nMOVQ %s, R10", f.slot("a"), f.slot("ars"), f.slot("aks"))
	f.emit("MOVQ %s, BX\nMOVQ %s, R11\nMOVQ %s, R12\nMOVQ %s, DX\nMOVQ %s, R13", f.slot("b"), f.slot("bks"), f.slot("bps"), f.slot("ahead"), f.slot("aheadStep"))
	t.bases()
	if t.inRegister() {
		f.emit("VMOVUPS %s<>(SB), %s", t.mask(), t.m.r(maskRegister))
	}
	f.emit("TESTQ CX, CX\nJZ %s\nPCALIGN $32\n%s:", f.label("store"), f.label("loop"))
	for p := range t.panels {
		f.emit("PREFETCHT0 (%s)%s", []string{"DX", "DI"}[p/4], panelIndex[p%4])
	}
	for half := range t.numbers() {
		t.step(half)
		for i := 0; i < t.rows; i += 3 {
			f.emit("ADDQ R10, %s", rowBases[i/3])
		}
	}
	f.emit("ADDQ R11, BX\nADDQ R13, DX")
	if t.panels > 4 {
		f.emit("ADDQ R11, SI\nADDQ R13, DI")
	}
	f.emit("DECQ CX\nJNZ %s\n%s:", f.label("loop"), f.label("store"))
	f.emit("MOVQ DX, %s\nMOVQ %s, DX\nMOVQ %s, R13", f.slot("ahead"), f.slot("c"), f.slot("ldc"))
	t.eachC(func(row, col int, at string) {
		f.emit("VMOVUPS %s, %s", t.m.r(t.sum(row, col)), at)
	})
	f.emit("ADDQ R13, DX\nMOVQ DX, %s\nMOVQ %s, AX\nADDQ AX, %s\nDECQ %s\nJNZ %s\nVZEROUPPER\nRET",
		f.slot("c"), f.slot("ags"), f.slot("a"), f.slot("groups"), f.label("group"))
}

// fetchNextC prefetches the next group's rows of C, because a tile cannot begin before its sums
// arrive.
func (t *x86Tile) fetchNextC() {
	for range t.rows {
		t.f.emit("ADDQ R13, DX")
		for p := range t.panels {
			t.f.emit("PREFETCHT0 %d(DX)", 64*p)
		}
	}
}

// start loads the sums from C, or clears them.
func (t *x86Tile) start() {
	f := t.f
	f.emit("CMPQ %s, $0\nJEQ %s", f.slot("accumulate"), f.label("clear"))
	t.eachC(func(row, col int, at string) {
		f.emit("VMOVUPS %s, %s", at, t.m.r(t.sum(row, col)))
	})
	f.emit("JMP %s\n%s:", f.label("ready"), f.label("clear"))
	for v := range vec(t.rows * t.columns()) {
		if v < 16 {
			t.m.zero(f, v)
		} else {
			f.emit("VPXORD %s, %s, %s", t.m.r(v), t.m.r(v), t.m.r(v))
		}
	}
	f.emit("%s:", f.label("ready"))
}

// eachC visits C's registers; DX moves from row to row.
func (t *x86Tile) eachC(visit func(row, col int, at string)) {
	for row := range t.rows {
		for col := range t.columns() {
			visit(row, col, fmt.Sprintf("%d(DX)", col*4*t.m.lanes))
		}
		if row < t.rows-1 {
			t.f.emit("ADDQ R13, DX")
		}
	}
}

// bases derives the further pointers.
func (t *x86Tile) bases() {
	if t.rows > 3 {
		t.f.emit("LEAQ (R8)(R8*2), R14")
	}
	for i := 3; i < t.rows; i += 3 {
		t.f.emit("LEAQ (%s)(R14*1), %s", rowBases[i/3-1], rowBases[i/3])
	}
	if t.panels > 2 {
		t.f.emit("LEAQ (R12)(R12*2), R14")
	}
	if t.panels > 4 {
		t.f.emit("LEAQ (BX)(R12*4), SI\nLEAQ (DX)(R12*4), DI")
	}
}

// a is the operand of A's row.
func (t *x86Tile) a(row int) string {
	return fmt.Sprintf("(%s)%s", rowBases[row/3], []string{"", "(R8*1)", "(R8*2)"}[row%3])
}

// panelIndex is the index part of an operand in panel p of four.
var panelIndex = []string{"", "(R12*1)", "(R12*2)", "(R14*1)"}

// b is the operand at byte off of B's panel.
func (t *x86Tile) b(panel, off int) string {
	base := "BX"
	if panel >= 4 {
		base = "SI"
	}
	return fmt.Sprintf("%d(%s)%s", off, base, panelIndex[panel%4])
}

// column is the operand of B's register col.
func (t *x86Tile) column(col int) string {
	return t.b(col/t.parts(), col%t.parts()*t.m.lanes*4)
}

// maskRegister holds the mask of a pair's second number in AVX-512, whose registers suffice for it.
const maskRegister = 31

func (t *x86Tile) inRegister() bool { return t.storage == pairs && t.m.lanes == 16 }

// mask is the constant that keeps the second number of each pair.
func (t *x86Tile) mask() string { return t.f.set.constant(constant{"upper", 0xffff0000}) }

// loadColumn brings B's register col into v, of pairs the given half.
func (t *x86Tile) loadColumn(col, half int, v vec) {
	f, from, to := t.f, t.column(col), t.m.r(v)
	switch {
	case t.storage == f32:
		f.emit("VMOVUPS %s, %s", from, to)
	case t.inRegister() && half == 0:
		f.emit("VPSLLD $16, %s, %s", from, to)
	case t.inRegister():
		f.emit("VPANDD %s, %s, %s", from, t.m.r(maskRegister), to)
	case half == 0:
		f.emit("VMOVUPS %s, %s\nVPSLLD $16, %s, %s", from, to, to, to)
	default:
		f.emit("VMOVUPS %s, %s\nVANDPS %s<>(SB), %s, %s", from, to, t.mask(), to, to)
	}
}

// step emits one k, of pairs the given half: either all of B's registers are loaded and the rows of A broadcast one by one,
// or, where registers do not suffice, all rows of A are and B's registers loaded one by one.
func (t *x86Tile) step(half int) {
	free, registers := vec(t.rows*t.columns()), t.m.registers
	if t.inRegister() {
		registers = maskRegister
	}
	if int(free)+t.columns()+2 <= registers && t.rows > 1 {
		a := free + vec(t.columns())
		for col := range t.columns() {
			t.loadColumn(col, half, free+vec(col))
		}
		for row := range t.rows {
			x := a + vec(row%2)
			t.f.emit("VBROADCASTSS %s, %s", t.a(row), t.m.r(x))
			for col := range t.columns() {
				t.m.fma(t.f, t.sum(row, col), x, free+vec(col))
			}
		}
		return
	}
	for row := range t.rows {
		t.f.emit("VBROADCASTSS %s, %s", t.a(row), t.m.r(free+vec(row)))
	}
	spare := registers - int(free) - t.rows
	for col := range t.columns() {
		if t.rows == 1 && t.storage == f32 {
			t.f.emit("VFMADD231PS %s, %s, %s", t.column(col), t.m.r(free), t.m.r(t.sum(0, col)))
			continue
		}
		b := free + vec(t.rows+col%min(spare, 4))
		t.loadColumn(col, half, b)
		for row := range t.rows {
			t.m.fma(t.f, t.sum(row, col), free+vec(row), b)
		}
	}
}
