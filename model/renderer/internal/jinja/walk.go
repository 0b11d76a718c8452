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

// blocks returns the lists of statements directly inside a statement.
func blocks(node stmt) (inner [][]stmt) {
	switch n := node.(type) {
	case *ifStmt:
		inner = [][]stmt{n.then, n.otherwise}
		for _, elif := range n.elifs {
			inner = append(inner, blocks(elif)...)
		}
	case *forStmt:
		inner = [][]stmt{n.body, n.otherwise}
	case *setBlock:
		inner = [][]stmt{n.body}
	case *withStmt:
		inner = [][]stmt{n.body}
	case *filterBlock:
		inner = [][]stmt{n.body}
	case *macroStmt:
		inner = [][]stmt{n.body}
	case *callBlock:
		inner = [][]stmt{n.body}
	}
	return inner
}

// storesLoop reports whether statements assign to the name loop, inner blocks included.
func storesLoop(body []stmt) bool {
	return slices.ContainsFunc(body, func(node stmt) bool {
		var target expr
		switch n := node.(type) {
		case *forStmt:
			target = n.target
		case *setStmt:
			target = n.target
		case *setBlock:
			target = n.target
		}
		found := false
		walk(target, func(e expr) {
			n, ok := e.(*name)
			found = found || ok && n.id == "loop"
		})
		return found || slices.ContainsFunc(blocks(node), storesLoop)
	})
}

// undeclared reports which of the names are read anywhere in body, inner blocks included, before
// they are stored.
func undeclared(body []stmt, names ...string) map[string]bool {
	u := undeclaredNames{wanted: map[string]bool{}, found: map[string]bool{}}
	for _, id := range names {
		u.wanted[id] = true
	}
	u.statements(body)
	return u.found
}

type undeclaredNames struct{ wanted, found map[string]bool }

func (u *undeclaredNames) read(list ...expr) {
	for _, e := range list {
		walk(e, func(e expr) {
			if n, ok := e.(*name); ok && u.wanted[n.id] {
				u.found[n.id] = true
			}
		})
	}
}

func (u *undeclaredNames) store(target expr) {
	walk(target, func(e expr) {
		if n, ok := e.(*name); ok {
			delete(u.wanted, n.id)
		}
	})
}

func (u *undeclaredNames) statements(body []stmt) {
	for _, node := range body {
		switch n := node.(type) {
		case *output:
			u.read(n.value)
		case *ifStmt:
			u.ifStatement(n)
		case *forStmt:
			u.store(n.target)
			u.read(n.iterable)
			u.statements(n.body)
			u.statements(n.otherwise)
			u.read(n.test)
		case *setStmt:
			u.store(n.target)
			u.read(n.value)
		case *setBlock:
			u.store(n.target)
			u.read(n.filter)
			u.statements(n.body)
		case *withStmt:
			for _, target := range n.targets {
				u.store(target)
			}
			u.read(n.values...)
			u.statements(n.body)
		case *filterBlock:
			u.statements(n.body)
			u.read(n.filter)
		case *macroStmt:
			u.callable(&n.signature)
		case *callBlock:
			if n.call != nil {
				u.read(n.call)
			}
			u.callable(&n.signature)
		}
	}
}

func (u *undeclaredNames) ifStatement(n *ifStmt) {
	u.read(n.test)
	u.statements(n.then)
	for _, elif := range n.elifs {
		u.ifStatement(elif)
	}
	u.statements(n.otherwise)
}

func (u *undeclaredNames) callable(sig *signature) {
	for _, param := range sig.params {
		delete(u.wanted, param)
	}
	u.read(sig.defaults...)
	u.statements(sig.body)
}

// expressions calls visit for every expression in body, inner blocks included.
func expressions(body []stmt, visit func(expr)) {
	for _, node := range body {
		switch n := node.(type) {
		case *output:
			walk(n.value, visit)
		case *ifStmt:
			walk(n.test, visit)
			for _, elif := range n.elifs {
				walk(elif.test, visit)
			}
		case *forStmt:
			walk(n.iterable, visit)
			walk(n.test, visit)
		case *setStmt:
			walk(n.value, visit)
		case *setBlock:
			walk(n.filter, visit)
		case *withStmt:
			for _, v := range n.values {
				walk(v, visit)
			}
		case *filterBlock:
			walk(n.filter, visit)
		case *macroStmt:
			for _, v := range n.defaults {
				walk(v, visit)
			}
		case *callBlock:
			if n.call != nil {
				walk(n.call, visit)
			}
			for _, v := range n.defaults {
				walk(v, visit)
			}
		}
		for _, inner := range blocks(node) {
			expressions(inner, visit)
		}
	}
}
