package jinja

// callable parses the body of a macro or call block. A break in it cannot leave a loop around it.
func (p *parser) callable(sig *signature, end string) (err error) {
	defer p.unconditional()()
	loops := p.loops
	p.loops = 0
	sig.body, _, err = p.block(end)
	p.loops = loops
	if err != nil {
		return err
	}
	reads := undeclared(sig.body, "caller", "kwargs", "varargs")
	for i, param := range sig.params {
		if param == "caller" && reads["caller"] && i < len(sig.params)-len(sig.defaults) {
			return p.fail(Syntax, "the argument 'caller' of a macro must be omitted or have a default")
		}
		delete(reads, param)
	}
	sig.caller, sig.kwargs, sig.varargs = reads["caller"], reads["kwargs"], reads["varargs"]
	return nil
}

func (p *parser) macro(at line) (stmt, error) {
	p.next++
	id, err := p.assignName()
	if err != nil {
		return nil, err
	}
	node := &macroStmt{line: at, name: id.id}
	if err := p.signature(&node.signature); err != nil {
		return nil, err
	}
	return node, p.callable(&node.signature, "endmacro")
}

func (p *parser) signature(sig *signature) error {
	defer p.unconditional()()
	if _, err := p.expect("("); err != nil {
		return err
	}
	for !p.is(")") {
		if len(sig.params) > 0 {
			if _, err := p.expect(","); err != nil {
				return err
			}
		}
		param, err := p.assignName()
		if err != nil {
			return err
		}
		if p.skip("=") {
			value, err := p.expression()
			if err != nil {
				return err
			}
			sig.defaults = append(sig.defaults, value)
		} else if len(sig.defaults) > 0 {
			return p.fail(Syntax, "argument '%s' without a default follows one with a default", param.id)
		}
		for _, earlier := range sig.params {
			if earlier == param.id {
				return p.fail(Syntax, "duplicate argument '%s'", param.id)
			}
		}
		sig.params = append(sig.params, param.id)
	}
	p.next++
	return nil
}

func (p *parser) callBlock(at line) (stmt, error) {
	p.next++
	node := &callBlock{line: at}
	if p.is("(") {
		if err := p.signature(&node.signature); err != nil {
			return nil, err
		}
	}
	callee, err := p.expression()
	if err != nil {
		return nil, err
	}
	var ok bool
	if node.call, ok = callee.(*call); !ok {
		return nil, p.fail(Syntax, "expected a call after 'call'")
	}
	return node, p.callable(&node.signature, "endcall")
}

// generation parses {% generation %}, the block with which a template marks the assistant's text.
func (p *parser) generation(at line) (stmt, error) {
	p.next++
	node := &callBlock{line: at, generation: true}
	return node, p.callable(&node.signature, "endgeneration")
}

// assignName parses a single name that is assigned to.
func (p *parser) assignName() (*name, error) {
	t, err := p.expect(tokName)
	if err != nil {
		return nil, err
	}
	if reserved[t.text] {
		return nil, p.fail(Syntax, "cannot assign to '%s'", t.text)
	}
	return &name{line(t.line), t.text}, nil
}

// reserved names are constants in Jinja or keywords in the Python it compiles to.
var reserved = map[string]bool{"true": true, "false": true, "none": true, "True": true, "False": true, "None": true}

// target parses the target of an assignment: a name, ns.attr if namespaces is set, or a tuple of
// them up to the word end.
func (p *parser) target(namespaces bool, end string) (expr, error) {
	parsed, err := p.tuple(tupleRules{simple: true, namespaces: namespaces, end: end})
	if err != nil {
		return nil, err
	}
	return parsed, p.assignable(parsed)
}

func (p *parser) assignable(e expr) error {
	switch t := e.(type) {
	case *name:
		if !reserved[t.id] {
			return nil
		}
	case *nsTarget:
		return nil
	case *tupleLit:
		for _, item := range t.items {
			if err := p.assignable(item); err != nil {
				return err
			}
		}
		return nil
	}
	return p.fail(Syntax, "cannot assign to this expression")
}
