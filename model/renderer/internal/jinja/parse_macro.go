package jinja

// callable parses the body of a macro or call block. A break in it cannot leave a loop around it.
func (p *parser) callable(sig *signature, end string) {
	defer p.unconditional()()
	loops := p.loops
	p.loops = 0
	sig.body, _ = p.block(end)
	p.loops = loops
	reads := undeclared(sig.body, "caller", "kwargs", "varargs")
	for i, param := range sig.params {
		if param == "caller" && reads["caller"] && i < len(sig.params)-len(sig.defaults) {
			panic(p.fail(Syntax, "the argument 'caller' of a macro must be omitted or have a default"))
		}
		delete(reads, param)
	}
	sig.caller, sig.kwargs, sig.varargs = reads["caller"], reads["kwargs"], reads["varargs"]
}

func (p *parser) macro(at line) stmt {
	p.next++
	id := p.assignName()
	node := &macroStmt{line: at, name: id.id}
	p.signature(&node.signature)
	p.callable(&node.signature, "endmacro")
	return node
}

func (p *parser) signature(sig *signature) {
	defer p.unconditional()()
	p.expect("(")
	for !p.is(")") {
		if len(sig.params) > 0 {
			p.expect(",")
		}
		param := p.assignName()
		if p.skip("=") {
			value := p.expression()
			sig.defaults = append(sig.defaults, value)
		} else if len(sig.defaults) > 0 {
			panic(p.fail(Syntax, "argument '%s' without a default follows one with a default", param.id))
		}
		for _, earlier := range sig.params {
			if earlier == param.id {
				panic(p.fail(Syntax, "duplicate argument '%s'", param.id))
			}
		}
		sig.params = append(sig.params, param.id)
	}
	p.next++
}

func (p *parser) callBlock(at line) stmt {
	p.next++
	node := &callBlock{line: at}
	if p.is("(") {
		p.signature(&node.signature)
	}
	callee := p.expression()
	var ok bool
	if node.call, ok = callee.(*call); !ok {
		panic(p.fail(Syntax, "expected a call after 'call'"))
	}
	p.callable(&node.signature, "endcall")
	return node
}

// generation parses {% generation %}, the block with which a template marks the assistant's text.
func (p *parser) generation(at line) stmt {
	p.next++
	node := &callBlock{line: at, generation: true}
	p.callable(&node.signature, "endgeneration")
	return node
}

// assignName parses a single name that is assigned to.
func (p *parser) assignName() *name {
	t := p.expect(tokName)
	if reserved[t.text] {
		panic(p.fail(Syntax, "cannot assign to '%s'", t.text))
	}
	return &name{line(t.line), t.text}
}

// reserved names are constants in Jinja or keywords in the Python it compiles to.
var reserved = map[string]bool{"true": true, "false": true, "none": true, "True": true, "False": true, "None": true}

// target parses the target of an assignment: a name, ns.attr if namespaces is set, or a tuple of
// them up to the word end.
func (p *parser) target(namespaces bool, end string) expr {
	parsed := p.tuple(tupleRules{simple: true, namespaces: namespaces, end: end})
	p.assignable(parsed)
	return parsed
}

func (p *parser) assignable(e expr) {
	switch t := e.(type) {
	case *name:
		if !reserved[t.id] {
			return
		}
	case *nsTarget:
		return
	case *tupleLit:
		for _, item := range t.items {
			p.assignable(item)
		}
		return
	}
	panic(p.fail(Syntax, "cannot assign to this expression"))
}
