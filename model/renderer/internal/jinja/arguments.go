package jinja

import "strings"

// bind assigns the arguments of a call to the parameters of a function or filter. A parameter whose
// name ends in '?' is optional; missing{} stands for an absent argument.
func bind(callee string, args []Value, named *Map, params ...string) ([]Value, error) {
	if len(args) > len(params) {
		return nil, typeErrorf("%s takes at most %d arguments, got %d", callee, len(params), len(args))
	}
	bound := make([]Value, len(params))
	used := 0
	for i, param := range params {
		id, optional := strings.CutSuffix(param, "?")
		v, given := named.Get(id)
		switch {
		case given && i < len(args):
			return nil, typeErrorf("%s got multiple values for argument '%s'", callee, id)
		case given:
			bound[i] = v
			used++
		case i < len(args):
			bound[i] = args[i]
		case optional:
			bound[i] = missing{}
		default:
			return nil, typeErrorf("%s is missing the argument '%s'", callee, id)
		}
	}
	if used < named.Len() {
		return nil, typeErrorf("%s got an unexpected keyword argument among %v", callee, named.keys)
	}
	return bound, nil
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
func wantText(callee string, v Value) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case markup:
		return "", failf(Unsupported, "%s of text marked safe", callee)
	case *undefined:
		return "", x.fail()
	}
	return "", typeErrorf("%s wants a string, not %s", callee, typeName(v))
}

// wantInt returns the number of an argument; any value but an integer or a boolean is an error.
func wantInt(callee string, v Value) (int64, error) {
	if n, ok := integer(v); ok {
		return n, nil
	}
	if u, ok := v.(*undefined); ok {
		return 0, u.fail()
	}
	return 0, typeErrorf("%s wants an integer, not %s", callee, typeName(v))
}

// soft returns str() of a filter's input. Text marked safe is an error, because the result would
// have to stay marked.
func soft(r *runtime, callee string, v Value) (string, error) {
	if _, marked := v.(markup); marked {
		return "", failf(Unsupported, "%s of text marked safe", callee)
	}
	return r.str(v)
}
