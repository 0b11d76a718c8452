package jinja

import "strings"

// bind assigns the arguments of a call to the parameters of a function or filter. A parameter whose
// name ends in '?' is optional; missing{} stands for an absent argument.
func bind(callee string, args []Value, named *Map, params ...string) []Value {
	if len(args) > len(params) {
		panic(typeErrorf("%s takes at most %d arguments, got %d", callee, len(params), len(args)))
	}
	bound := make([]Value, len(params))
	used := 0
	for i, param := range params {
		id, optional := strings.CutSuffix(param, "?")
		v, given := named.Get(id)
		switch {
		case given && i < len(args):
			panic(typeErrorf("%s got multiple values for argument '%s'", callee, id))
		case given:
			bound[i] = v
			used++
		case i < len(args):
			bound[i] = args[i]
		case optional:
			bound[i] = missing{}
		default:
			panic(typeErrorf("%s is missing the argument '%s'", callee, id))
		}
	}
	if used < named.Len() {
		panic(typeErrorf("%s got an unexpected keyword argument among %v", callee, named.keys))
	}
	return bound
}

func given(v Value) bool {
	_, absent := v.(missing)
	return !absent
}

// orDefault returns v, or d where the argument is absent.
func orDefault(v, d Value) Value {
	if given(v) {
		return v
	}
	return d
}

// wantText returns the text of an argument; any value but a plain string is an error.
func wantText(callee string, v Value) string {
	switch x := v.(type) {
	case string:
		return x
	case markup:
		panic(failf(Unsupported, "%s of text marked safe", callee))
	case *undefined:
		panic(x.fail())
	}
	panic(typeErrorf("%s wants a string, not %s", callee, typeName(v)))
}

// wantInt returns the number of an argument; any value but an integer or a boolean is an error.
func wantInt(callee string, v Value) int64 {
	if n, ok := integer(v); ok {
		return n
	}
	if u, ok := v.(*undefined); ok {
		panic(u.fail())
	}
	panic(typeErrorf("%s wants an integer, not %s", callee, typeName(v)))
}

// soft returns str() of a filter's input. Text marked safe is an error, because the result would
// have to stay marked.
func soft(r *runtime, callee string, v Value) string {
	if _, marked := v.(markup); marked {
		panic(failf(Unsupported, "%s of text marked safe", callee))
	}
	return r.str(v)
}
