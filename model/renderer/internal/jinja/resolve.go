package jinja

// resolve computes the scopes of a template and of every block in it.
func resolve(body []stmt) *scope {
	root := newScope(nil)
	root.mention(body)
	enterBlocks(body, root)
	return root
}

// mention records the names in the statements of this scope, without the blocks that have a scope
// of their own.
func (s *scope) mention(body []stmt) {
	for _, node := range body {
		switch n := node.(type) {
		case *output:
			s.read(n.value)
		case *ifStmt:
			s.mentionIf(n)
		case *forStmt:
			s.read(n.iterable)
		case *setStmt:
			s.read(n.value)
			s.assign(n.target, false)
		case *setBlock:
			s.assign(n.target, false)
		case *withStmt:
			s.readAll(n.values)
		case *filterBlock:
			s.read(n.filter)
		case *macroStmt:
			s.store(n.name)
		case *callBlock:
			if n.call != nil {
				s.read(n.call)
			}
		}
	}
}

func (s *scope) mentionIf(n *ifStmt) {
	s.read(n.test)
	then, elifs, otherwise := s.branch(), s.branch(), s.branch()
	then.mention(n.then)
	for _, elif := range n.elifs {
		elifs.mentionIf(elif)
	}
	otherwise.mention(n.otherwise)
	s.merge(then, elifs, otherwise)
}

func (s *scope) assign(target expr, parameter bool) {
	switch t := target.(type) {
	case *name:
		if parameter {
			s.parameter(t.id)
		} else {
			s.store(t.id)
		}
	case *nsTarget:
		s.load(t.namespace)
	case *tupleLit:
		for _, item := range t.items {
			s.assign(item, parameter)
		}
	}
}

func (s *scope) read(e expr) {
	eachName(e, s.load)
}

func (s *scope) readAll(list []expr) {
	for _, e := range list {
		s.read(e)
	}
}

// enterBlocks creates the scope of every block in body that has one of its own. Its parent is s.
func enterBlocks(body []stmt, s *scope) {
	for _, node := range body {
		switch n := node.(type) {
		case *ifStmt:
			enterIf(n, s)
		case *forStmt:
			enterFor(n, s)
		case *setBlock:
			n.scope = enterFiltered(n.body, n.filter, s)
		case *withStmt:
			n.scope = newScope(s)
			for _, target := range n.targets {
				n.scope.assign(target, true)
			}
			n.scope.mention(n.body)
			enterBlocks(n.body, n.scope)
		case *filterBlock:
			n.scope = enterFiltered(n.body, n.filter, s)
		case *macroStmt:
			enterCallable(&n.signature, s)
		case *callBlock:
			enterCallable(&n.signature, s)
		}
	}
}

func enterFiltered(body []stmt, filter expr, s *scope) *scope {
	inner := newScope(s)
	inner.mention(body)
	inner.read(filter)
	enterBlocks(body, inner)
	return inner
}

func enterIf(n *ifStmt, s *scope) {
	enterBlocks(n.then, s)
	for _, elif := range n.elifs {
		enterIf(elif, s)
	}
	enterBlocks(n.otherwise, s)
}

func enterFor(n *forStmt, s *scope) {
	n.usesLoop = n.recursive || undeclared(n.body, "loop")["loop"]
	n.bodyScope = newScope(s)
	if n.usesLoop {
		n.bodyScope.parameter("loop")
	}
	n.bodyScope.assign(n.target, true)
	n.bodyScope.mention(n.body)
	enterBlocks(n.body, n.bodyScope)
	if n.test != nil {
		n.testScope = newScope(s)
		n.testScope.assign(n.target, true)
		n.testScope.read(n.test)
	}
	n.otherScope = newScope(s)
	n.otherScope.mention(n.otherwise)
	enterBlocks(n.otherwise, n.otherScope)
}

func enterCallable(sig *signature, s *scope) {
	sig.scope = newScope(s)
	for _, param := range sig.params {
		sig.scope.parameter(param)
	}
	for special, used := range map[string]bool{"caller": sig.caller, "kwargs": sig.kwargs, "varargs": sig.varargs} {
		if used {
			sig.scope.parameter(special)
		}
	}
	sig.scope.readAll(sig.defaults)
	sig.scope.mention(sig.body)
	enterBlocks(sig.body, sig.scope)
}
