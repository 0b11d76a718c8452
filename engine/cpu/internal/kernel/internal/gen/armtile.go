package main

// armTiles emits every tile shape, for B in each storage.
func (s *set) armTiles() {
	for _, b := range storages {
		for rows := 1; rows < len(s.panels); rows++ {
			for panels := 1; panels <= s.panels[rows]; panels *= 2 {
				t := armTile{m: s.m.(*arm), rows: rows, panels: panels, storage: b}
				t.f = s.function("", tileName(rows, panels, b), false, tileArgs()...)
				t.emit()
			}
		}
	}
}

// armTile is one tile under construction: R0 counts k, R1 to R6 point to the rows of A, R7 is its
// stride in k; R8 and R10 to R12 point to the panels of B, R13 is its stride in k; R14 points to C,
// R15 is its stride. R19 counts groups, R20 and R21 are where A and C begin in this one.
// Prefetching is left to the processor.
type armTile struct {
	f            *function
	m            *arm
	rows, panels int
	storage
}

var armPanels = []int{8, 10, 11, 12}

func (t *armTile) columns() int { return 4 * t.panels }

func (t *armTile) sum(row, col int) vec { return vec(row*t.columns() + col) }

func (t *armTile) emit() {
	f := t.f
	f.emit("MOVD %s, R19\nMOVD %s, R20\nMOVD %s, R21\nMOVD %s, R7\nMOVD %s, R13\nMOVD %s, R15\n%s:",
		f.slot("groups"), f.slot("a"), f.slot("c"), f.slot("aks"), f.slot("bks"), f.slot("ldc"), f.label("group"))
	f.emit("MOVD %s, R0\nMOVD R20, R1\nMOVD %s, R9", f.slot("kc"), f.slot("ars"))
	for row := 1; row < t.rows; row++ {
		f.emit("ADD R9, R%d, R%d", row, row+1)
	}
	f.emit("MOVD %s, R8\nMOVD %s, R9", f.slot("b"), f.slot("bps"))
	for p := 1; p < t.panels; p++ {
		f.emit("ADD R9, R%d, R%d", armPanels[p-1], armPanels[p])
	}
	f.emit("MOVD R21, R14\nMOVD %s, R9\nCBZ R9, %s", f.slot("accumulate"), f.label("clear"))
	t.eachC(func(v vec, off int) { f.emit("FMOVQ %d(R14), F%d", off, v) })
	f.emit("B %s\n%s:", f.label("ready"), f.label("clear"))
	for v := range vec(t.rows * t.columns()) {
		t.m.zero(f, v)
	}
	f.emit("%s:\nCBZ R0, %s\n%s:", f.label("ready"), f.label("store"), f.label("loop"))
	for half := range t.numbers() {
		t.step(half)
	}
	f.emit("SUBS $1, R0, R0\nBNE %s\n%s:\nMOVD R21, R14", f.label("loop"), f.label("store"))
	t.eachC(func(v vec, off int) { f.emit("FMOVQ F%d, %d(R14)", v, off) })
	f.emit("ADD R15, R14, R21\nMOVD %s, R9\nADD R9, R20, R20\nSUBS $1, R19, R19\nBNE %s\nRET", f.slot("ags"), f.label("group"))
}

// eachC visits C's registers; R14 moves from row to row.
func (t *armTile) eachC(visit func(v vec, off int)) {
	for row := range t.rows {
		for col := range t.columns() {
			visit(t.sum(row, col), 16*col)
		}
		if row < t.rows-1 {
			t.f.emit("ADD R15, R14, R14")
		}
	}
}

// step emits one k: the rows of A are broadcast where registers suffice for all of them, or else
// two by two.
func (t *armTile) step(half int) {
	f := t.f
	next := vec(t.rows * t.columns())
	if free := 32 - int(next); free >= t.rows+4 {
		for row := range t.rows {
			t.loadA(row, next+vec(row))
		}
		for p := range t.panels {
			b := next + vec(t.rows)
			t.loadPanel(p, half, b)
			for col := range 4 {
				for row := range t.rows {
					t.m.fma(f, t.sum(row, 4*p+col), next+vec(row), b+vec(col))
				}
			}
		}
		return
	}
	if t.panels > 1 {
		t.stepByColumn(half, next)
		return
	}
	t.loadPanel(0, half, next)
	for row := range t.rows {
		a := next + 4 + vec(row%2)
		t.loadA(row, a)
		for col := range 4 {
			t.m.fma(f, t.sum(row, col), a, next+vec(col))
		}
	}
}

// stepByColumn loads B four columns at a time, for wide tiles of few rows.
func (t *armTile) stepByColumn(half int, next vec) {
	for row := range t.rows {
		t.loadA(row, next+vec(row))
	}
	b := next + vec(t.rows)
	for p := range t.panels {
		for col := range 4 {
			t.loadPart(p, col, half, b)
			for row := range t.rows {
				t.m.fma(t.f, t.sum(row, 4*p+col), next+vec(row), b)
			}
		}
		t.nextRow(p, half)
	}
}

// loadPart brings columns 4·col to 4·col+3 of a panel's row into v.
func (t *armTile) loadPart(panel, col, half int, v vec) {
	t.f.emit("FMOVQ %d(R%d), F%d", 16*col, armPanels[panel], v)
	switch {
	case t.storage == pairs && half == 0:
		t.m.op2(t.f, "SHL $16,", armSHL16, v, v)
	case t.storage == pairs:
		t.m.op3(t.f, "AND", armAND, v, v, t.m.register(t.f, constant{"upper", 0xffff0000}))
	}
}

// loadA broadcasts the element of a row of A and moves on to the next one.
func (t *armTile) loadA(row int, v vec) {
	t.f.emit("VLD1R (R%d), [V%d.S4]\nADD R7, R%d, R%d", row+1, v, row+1, row+1)
}

// nextRow moves on to the next row of a panel, after the last number of this one.
func (t *armTile) nextRow(panel, half int) {
	if half == t.numbers()-1 {
		t.f.emit("ADD R13, R%d, R%d", armPanels[panel], armPanels[panel])
	}
}

// loadPanel brings a panel's row into v to v+3 and moves on to the next row.
func (t *armTile) loadPanel(panel, half int, v vec) {
	for col := range 4 {
		t.loadPart(panel, col, half, v+vec(col))
	}
	t.nextRow(panel, half)
}
