package jinja

import (
	"strings"
	"testing"
)

// Filters, tests, functions and methods take their arguments by the same rules, and their errors name them.
func TestArgumentsOfBuiltins(t *testing.T) {
	for source, want := range map[string]string{
		"{{ 'a'.upper(1) }}":                   "upper takes no arguments",
		"{{ 'a' | first(1) }}":                 "first takes no arguments",
		"{{ 1 is odd(1) }}":                    "odd takes no arguments",
		"{{ cycler(1).next(2) }}":              "next takes no arguments",
		"{{ {}.get(key=1) }}":                  "get takes no keyword arguments",
		"{{ {}.get() }}":                       "get is missing the argument 'key'",
		"{{ 1 is divisibleby }}":               "divisibleby is missing the argument 'num'",
		"{{ 'a'.strip('a', 'b') }}":            "strip takes at most 1 arguments, got 2",
		"{{ 'a' | replace('a', 'b', old=1) }}": "replace got multiple values for argument 'old'",
		"{{ strftime_now(form='%Y') }}":        "strftime_now is missing the argument 'format'",
		"{{ 'a' | trim(x=1) }}":                "trim got an unexpected keyword argument among [x]",
		"{{ 'a'.endswith(1) }}":                "endswith wants a string, not int",
		"{{ 'a'.removesuffix(1) }}":            "removesuffix wants a string, not int",
		"{{ 'a' | tojson(indent=[]) }}":        "tojson(indent) wants an integer, not list",
		"{{ 'a' | tojson(separators=[1,2]) }}": "tojson(separators) wants a string, not int",
		"{{ 'a' | indent([]) }}":               "indent(width) wants an integer, not list",
		"{{ 'a'.center('b') }}":                "center wants an integer, not str",
	} {
		if _, err := renderSource("arguments", source, nil); err == nil || !strings.HasSuffix(err.Error(), "type error: "+want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}
