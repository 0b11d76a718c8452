package jinja

// expr is an expression node; pos is its line.
type expr interface{ pos() int }

type line int

func (l line) pos() int { return int(l) }

type (
	constant struct {
		line
		value Value
	}
	name struct {
		line
		id string
	}
	tupleLit struct {
		line
		items []expr
	}
	listLit struct {
		line
		items []expr
	}
	dictLit struct {
		line
		keys, values []expr
	}
	condition struct { // a if test else b
		line
		test, then, otherwise expr // otherwise may be nil
	}
	logic struct { // and, or
		line
		and         bool
		left, right expr
	}
	not struct {
		line
		operand expr
	}
	compare struct { // a < b <= c
		line
		first expr
		ops   []string // also "in" and "not in"
		rest  []expr
	}
	binary struct {
		line
		op          string
		left, right expr
	}
	unary struct {
		line
		op      string
		operand expr
	}
	concat struct { // a ~ b
		line
		parts []expr
	}
	attribute struct { // a.b
		line
		object expr
		name   string
	}
	item struct { // a[b]
		line
		object, key expr
	}
	slice struct { // a[b:c:d]; nil parts are absent
		line
		object            expr
		start, stop, step expr
	}
	call struct {
		line
		callee expr
		arguments
	}
	filter struct {
		line
		object expr // nil is the text of the enclosing block
		name   string
		arguments
	}
	test struct {
		line
		object expr
		name   string
		arguments
	}
	arguments struct {
		args     []expr
		names    []string // of named
		named    []expr
		varargs  expr // *args
		varnamed expr // **kwargs
	}
)

// stmt is a statement node.
type stmt interface{ pos() int }

type (
	text struct {
		line
		data string
	}
	output struct {
		line
		value expr
	}
	ifStmt struct {
		line
		test      expr
		then      []stmt
		elifs     []*ifStmt
		otherwise []stmt
	}
	forStmt struct {
		line
		target     expr
		iterable   expr
		test       expr // nil without a condition
		recursive  bool
		body       []stmt
		otherwise  []stmt
		usesLoop   bool
		bodyScope  *scope
		testScope  *scope
		otherScope *scope
	}
	setStmt struct {
		line
		target expr // name, nsTarget or tupleLit of them
		value  expr
	}
	setBlock struct {
		line
		target expr
		filter expr // chain of filters whose innermost object is nil; may be nil
		body   []stmt
		scope  *scope
	}
	nsTarget struct { // the target of {% set ns.x = ... %}
		line
		namespace, attr string
	}
	withStmt struct {
		line
		targets []expr
		values  []expr
		body    []stmt
		scope   *scope
	}
	filterBlock struct {
		line
		filter expr
		body   []stmt
		scope  *scope
	}
	macroStmt struct {
		line
		name string
		signature
	}
	callBlock struct { // {% call(args) f() %}; a generation block is one without a call
		line
		call       *call
		generation bool
		signature
	}
	signature struct {
		params   []string
		defaults []expr // of the last params
		body     []stmt
		scope    *scope
		caller   bool // the body reads caller, kwargs, varargs
		kwargs   bool
		varargs  bool
	}
	loopControl struct { // break, continue
		line
		exit bool
	}
)
