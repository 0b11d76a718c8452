package jinja

import "slices"

// walk calls visit for e and every expression in it.
func walk(e expr, visit func(expr)) {
	if e == nil {
		return
	}
	visit(e)
	for _, child := range children(e) {
		walk(child, visit)
	}
}

func children(e expr) []expr {
	switch n := e.(type) {
	case *tupleLit:
		return n.items
	case *listLit:
		return n.items
	case *dictLit:
		return append(append([]expr{}, n.keys...), n.values...)
	case *condition:
		return []expr{n.test, n.then, n.otherwise}
	case *logic:
		return []expr{n.left, n.right}
	case *not:
		return []expr{n.operand}
	case *compare:
		return append([]expr{n.first}, n.rest...)
	case *binary:
		return []expr{n.left, n.right}
	case *unary:
		return []expr{n.operand}
	case *concat:
		return n.parts
	case *attribute:
		return []expr{n.object}
	case *item:
		return []expr{n.object, n.key}
	case *slice:
		return []expr{n.object, n.start, n.stop, n.step}
	case *call:
		return append([]expr{n.callee}, n.arguments.all()...)
	case *filter:
		return append([]expr{n.object}, n.arguments.all()...)
	case *test:
		return append([]expr{n.object}, n.arguments.all()...)
	}
	return nil
}

func (a *arguments) all() []expr {
	list := append(append([]expr{}, a.args...), a.named...)
	return append(list, a.varargs, a.varnamed)
}

// part is a part of a statement: one of its fields is set.
type part struct {
	stores expr // target that the statement assigns
	binds  expr // target or parameter of its own block
	reads  expr
	block  []stmt
}

// parts returns the parts of a statement in Jinja's order.
func parts(node stmt) (all []part) {
	switch n := node.(type) {
	case *output:
		return []part{{reads: n.value}}
	case *ifStmt:
		all = []part{{reads: n.test}, {block: n.then}}
		for _, elif := range n.elifs {
			all = append(all, part{block: []stmt{elif}})
		}
		return append(all, part{block: n.otherwise})
	case *forStmt:
		return []part{{stores: n.target}, {reads: n.iterable}, {block: n.body}, {block: n.otherwise}, {reads: n.test}}
	case *setStmt:
		return []part{{stores: n.target}, {reads: n.value}}
	case *setBlock:
		return []part{{stores: n.target}, {reads: n.filter}, {block: n.body}}
	case *withStmt:
		return ownBlock(n.targets, n.values, n.body)
	case *filterBlock:
		return []part{{block: n.body}, {reads: n.filter}}
	case *macroStmt:
		return n.signature.parts()
	case *callBlock:
		if n.call != nil {
			all = []part{{reads: n.call}}
		}
		return append(all, n.signature.parts()...)
	}
	return nil
}

func (s *signature) parts() []part {
	var params []expr
	for _, id := range s.params {
		params = append(params, &name{id: id})
	}
	return ownBlock(params, s.defaults, s.body)
}

func ownBlock(binds, reads []expr, body []stmt) (all []part) {
	for _, e := range binds {
		all = append(all, part{binds: e})
	}
	for _, e := range reads {
		all = append(all, part{reads: e})
	}
	return append(all, part{block: body})
}

// eachName calls visit for the names in an expression.
func eachName(e expr, visit func(id string)) {
	walk(e, func(e expr) {
		if n, ok := e.(*name); ok {
			visit(n.id)
		}
	})
}

// storesLoop reports whether statements assign to the name loop, inner blocks included.
func storesLoop(body []stmt) bool {
	return slices.ContainsFunc(body, func(node stmt) bool {
		return slices.ContainsFunc(parts(node), func(p part) bool {
			found := storesLoop(p.block)
			eachName(p.stores, func(id string) { found = found || id == "loop" })
			return found
		})
	})
}

// undeclared reports which of the names are read anywhere in body, inner blocks included, before
// they are stored.
func undeclared(body []stmt, names ...string) map[string]bool {
	stored, found := map[string]bool{}, map[string]bool{}
	var look func(body []stmt)
	look = func(body []stmt) {
		for _, node := range body {
			for _, p := range parts(node) {
				store := func(id string) { stored[id] = true }
				eachName(p.stores, store)
				eachName(p.binds, store)
				eachName(p.reads, func(id string) { found[id] = found[id] || !stored[id] && slices.Contains(names, id) })
				look(p.block)
			}
		}
	}
	look(body)
	return found
}

// expressions calls visit for every expression that statements read, inner blocks included.
func expressions(body []stmt, visit func(expr)) {
	for _, node := range body {
		for _, p := range parts(node) {
			walk(p.reads, visit)
			expressions(p.block, visit)
		}
	}
}
