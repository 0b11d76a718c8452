package jinja

import (
	"errors"
	"fmt"
)

// Kind says what sort of failure an [Error] is.
type Kind string

// The kinds of [Error].
const (
	Syntax      Kind = "syntax error"      // the source is not a template
	Unsupported Kind = "not supported"     // valid in Python's Jinja2, not here
	Undefined   Kind = "undefined"         // an operation on an undefined value
	Type        Kind = "type error"        // an operation on values that do not allow it
	Security    Kind = "not allowed"       // what the sandbox refuses
	Limit       Kind = "limit exceeded"    // see [Limits]
	Raised      Kind = "the template says" // raise_exception; Msg is the template's own text
)

// Error is the type of every error of this package.
type Error struct {
	Template string // the name given to Parse
	Line     int    // 1-based line of the source; 0 when unknown
	Kind     Kind
	Msg      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("template %s, line %d: %s: %s", e.Template, e.Line, e.Kind, e.Msg)
}

func failf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

func typeErrorf(format string, args ...any) error { return failf(Type, format, args...) }

// at sets the line of an error, unless a deeper node has set it already.
func at(err error, line int) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 {
		e.Line = line
	}
	return err
}

// Within the package a failure is a panic with an *Error, because almost every operation on values
// and every rule of the grammar can fail. It ends in report or attempt.

// report turns the failure of a deferring function into its error.
func report(err *error, template string) {
	switch failure := recover().(type) {
	case nil:
	case *Error:
		failure.Template = template
		*err = failure
	default:
		panic(failure)
	}
}

// addLine gives the failure of a deferring function a line, unless it has one.
func addLine(line func() int) {
	failure := recover()
	if e, ok := failure.(*Error); ok {
		panic(at(e, line()))
	}
	if failure != nil {
		panic(failure)
	}
}

// attempt returns the failure of f, nil if it succeeds.
func attempt(f func()) (e *Error) {
	defer func() {
		failure := recover()
		if e, _ = failure.(*Error); e == nil && failure != nil {
			panic(failure)
		}
	}()
	f()
	return nil
}
