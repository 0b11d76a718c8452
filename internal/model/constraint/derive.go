package constraint

import "slices"

// unknown stands for a derivative that was not computed yet.
const unknown int32 = -1

// maxRows bounds the table of derivatives, of 1 KiB a row.
const maxRows = 1 << 12

// step returns the node that matches what may follow byte c of a text that id matches; none if no
// text with c does.
func (g *arena) step(id int32, c byte) int32 {
	if id != g.lastNode {
		if id <= empty {
			return none
		}
		g.lastRow, g.lastNode = g.row(id), id
	}
	if to := g.lastRow[c]; to != unknown {
		return to
	}
	to := g.derive(id, c)
	if g.err != nil {
		return none
	}
	g.row(id)[c] = to // derive may have dropped the rows
	return to
}

func (g *arena) row(id int32) *[256]int32 {
	row := g.rows[id]
	if row == nil {
		if len(g.rows) >= maxRows {
			clear(g.rows)
			g.lastNode = -1
		}
		row = new([256]int32)
		for i := range row {
			row[i] = unknown
		}
		g.rows[id] = row
	}
	return row
}

// derive computes step.
func (g *arena) derive(id int32, c byte) int32 {
	if g.work--; g.work < 0 {
		g.err = errTooLarge
		return none
	}
	n := g.nodes[id] // a copy: new nodes move the others
	switch n.kind {
	case kindAll:
		return all
	case kindSet:
		if g.sets[n.a][c/64]>>(c%64)&1 == 1 {
			return empty
		}
		return none
	case kindCat:
		out := g.cat(g.part(n.a, c), n.b)
		if g.nodes[n.a].nullable {
			out = g.alt(out, g.part(n.b, c))
		}
		return out
	case kindAlt, kindAnd:
		list := make([]int32, 0, len(n.list))
		if n.kind == kindAlt {
			for _, x := range n.list {
				list = append(list, g.part(x, c))
			}
			return g.alt(list...)
		}
		for _, x := range n.list { // few states of each are in many intersections
			list = append(list, g.step(x, c))
		}
		return g.and(list...)
	case kindNot:
		return g.not(g.step(n.a, c))
	case kindRep:
		rest := n.max
		if rest != unlimited {
			rest--
		}
		return g.cat(g.part(n.a, c), g.rep(n.a, max(0, n.min-1), rest))
	case kindUnit:
		begun := n.b
		if begun == unitText {
			begun = unitBegun
		}
		return g.unit(g.derive(n.a, c), begun)
	case kindRef:
		return g.part(g.rules[n.a].body, c)
	}
	return none
}

// part is derive for a part of a node. It remembers those of units and of characters, which stand in many
// nodes.
func (g *arena) part(id int32, c byte) int32 {
	if g.nodes[id].kind == kindUnit || g.single[id] {
		return g.step(id, c)
	}
	return g.derive(id, c)
}

// maxSearch bounds the nodes that live looks at. What needs more counts as alive: at worst a reply
// ends with an error.
const maxSearch = 2048

// live reports whether a node with logic matches any text.
func (g *arena) live(id int32) bool {
	if known, ok := g.lives[id]; ok {
		return known
	}
	if alive, ok := g.fits(id); ok {
		return alive
	}
	type visit struct{ node, from int32 }
	seen, queue := map[int32]bool{id: true}, []visit{{id, -1}}
	isAlive := func(i int) bool { // and so are all on the way
		n := &g.nodes[queue[i].node]
		if !n.nullable && n.logic && !g.lives[queue[i].node] && len(queue) <= maxSearch {
			return false
		}
		for j := int32(i); j >= 0; j = queue[j].from {
			g.lives[queue[j].node] = true
		}
		return true
	}
	if isAlive(0) {
		return true
	}
	for i := 0; i < len(queue); i++ {
		for _, c := range g.representatives() {
			to := g.step(queue[i].node, c)
			g.fits(to)
			if alive, known := g.lives[to]; to == none || seen[to] || known && !alive {
				continue
			}
			seen[to] = true
			if queue = append(queue, visit{to, int32(i)}); isAlive(len(queue) - 1) {
				return true
			}
		}
	}
	for _, v := range queue {
		if g.err == nil { // else the search has not seen all
			g.lives[v.node] = false
		}
	}
	return g.err != nil
}

// representatives returns a byte of each class that no set of the arena tells apart.
func (g *arena) representatives() []byte {
	if g.classes != nil {
		return g.classes
	}
	var class [256]int32
	count := int32(1)
	for _, s := range g.sets {
		split := map[int32]int32{} // members of a class in the set move to a new class
		for c := range 256 {
			if s[c/64]>>(c%64)&1 == 0 {
				continue
			}
			to, ok := split[class[c]]
			if !ok {
				to = count
				split[class[c]] = to
				count++
			}
			class[c] = to
		}
	}
	var seen []int32
	for c := range 256 {
		if !slices.Contains(seen, class[c]) {
			seen = append(seen, class[c])
			g.classes = append(g.classes, byte(c))
		}
	}
	return g.classes
}
