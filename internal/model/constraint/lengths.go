package constraint

import "slices"

// A string with a pattern and at most so many characters is an intersection. It has a state for each number
// of characters that are left, but what may follow differs by that number alone: so its masks come from
// those of the pattern without a limit, and from the characters that a text needs to fit the pattern.

// uncounted returns an intersection with a limit of characters and no lower one, without the limit, and the
// limit. ok is false for other nodes.
func (g *arena) uncounted(id int32) (free, most int32, ok bool) {
	n := &g.nodes[id]
	if n.kind != kindAnd {
		return id, 0, false
	}
	for i, x := range n.list {
		prefix, at := []int32(nil), x
		for g.nodes[at].kind == kindCat { // of a character that has begun
			prefix, at = append(prefix, g.nodes[at].a), g.nodes[at].b
		}
		r := g.nodes[at]
		if r.kind != kindRep || !g.single[r.a] || r.min > 0 || r.max == unlimited {
			continue
		}
		list := slices.Clone(n.list)
		list[i] = g.seq(append(prefix, g.rep(r.a, 0, unlimited))...)
		return g.and(list...), r.max, true
	}
	return id, 0, false
}

// fits reports whether an intersection with a limit of characters matches any text, and remembers it. ok
// is false for other nodes.
func (g *arena) fits(id int32) (alive, ok bool) {
	free, most, ok := g.uncounted(id)
	if !ok {
		return false, false
	}
	if need := g.need(free); g.err == nil {
		g.lives[id] = 0 <= need && need <= most
	}
	return g.lives[id], true
}

// isAtCharacter reports whether an intersection that uncounted returned stands between two characters.
func (g *arena) isAtCharacter(id int32) bool {
	n := &g.nodes[id]
	return n.kind == kindAnd && slices.ContainsFunc(n.list, func(x int32) bool {
		r := &g.nodes[x]
		return r.kind == kindRep && g.single[r.a] && r.min == 0 && r.max == unlimited
	})
}

// need returns the fewest characters that a text in a state has to go on with, not counting one that has
// begun. It is negative if no text fits, and 0 if the search takes too long.
func (g *arena) need(id int32) int32 {
	if known, ok := g.needs[id]; ok {
		return known
	}
	type visit struct{ node, from, count int32 }
	seen, all := map[int32]int32{id: 0}, []visit{{id, -1, 0}} // the characters before a state
	best, last := int32(-1), int32(-1)
	now, next := []int32{0}, []int32(nil) // places in all, with as many characters and with one more
	for ; len(now) > 0; now, next = next, nil {
		for i := 0; i < len(now); i++ {
			at := all[now[i]]
			if best >= 0 && at.count >= best {
				break
			}
			rest, known := g.needs[at.node]
			if g.nodes[at.node].nullable {
				rest, known = 0, true
			}
			if known {
				if rest >= 0 && (best < 0 || at.count+rest < best) {
					best, last = at.count+rest, now[i]
				}
				continue
			}
			if len(all) > maxSearch {
				return 0
			}
			begins := g.isAtCharacter(at.node)
			for _, c := range g.representatives() {
				to := g.step(at.node, c)
				place, count := int32(len(all)), at.count
				if begins {
					count++
				}
				if before, has := seen[to]; to == none || has && before <= count {
					continue
				}
				seen[to], all = count, append(all, visit{to, now[i], count})
				if begins {
					next = append(next, place)
				} else {
					now = append(now, place)
				}
			}
		}
	}
	if g.err != nil {
		return 0
	}
	g.needs[id] = best
	for ; last >= 0; last = all[last].from {
		g.needs[all[last].node] = best - all[last].count
	}
	return best
}
