package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/safetext"
)

// Position is a place in a configuration. Line and Col count from 1. Both are 0 for a value from
// the command line.
type Position struct {
	File      string
	Line, Col int
}

// String returns file:line:col, or only the file if the position has no line.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// line returns only the line, or the file if the position has no line.
func (p Position) line() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("line %d", p.Line)
}

// Error is one mistake in a configuration.
type Error struct {
	File        string
	Line, Col   int
	Key         string // dotted path of the key, "" when the file as a whole is meant
	Message     string // what is wrong
	Hint        string // what to do, "" if there is nothing to say
	Unsupported bool   // the value is valid, but no part of this version does it
}

// Error returns `file:line:col: key: message; hint`, without passwords.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(Position{e.File, e.Line, e.Col}.String())
	if e.Key != "" {
		b.WriteString(": " + e.Key)
	}
	b.WriteString(": " + e.Message)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return safetext.Hidden(safetext.Printable(b.String()))
}

// Errors is all mistakes in a configuration.
type Errors []Error

// Error returns one line per error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the errors in file order, without duplicates.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return slices.CompactFunc(e, func(a, b Error) bool {
		return a.File == b.File && a.Line == b.Line && a.Col == b.Col && a.Message == b.Message && lastKey(a.Key) == lastKey(b.Key)
	})
}

// with adds the errors of checks, except for keys whose value could not be decoded. A key of a
// stage has two names but one line, so with compares lines too.
func (e Errors) with(checks Errors) Errors {
	type place struct {
		line int
		key  string
	}
	unread := map[place]bool{}
	for _, one := range e {
		unread[place{0, one.Key}] = true
		unread[place{one.Line, lastKey(one.Key)}] = true
	}
	for _, one := range checks {
		if !unread[place{0, one.Key}] && !unread[place{one.Line, lastKey(one.Key)}] {
			e = append(e, one)
		}
	}
	return e
}

func lastKey(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// orNil returns the errors as an error, nil if there are none.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e.sorted()
}
