package toolcall

import (
	"encoding/json"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// Syntax is how a model writes calls: Open, then for each call Before, its name, Between, its arguments and
// After, with Separator between calls, then Close.
type Syntax struct {
	Open, Before, Between, After, Separator, Close string
	// Python says that arguments are name=value with values in Python; else they are a JSON object.
	Python bool
	// Argument is what stands before the name of an argument, behind the name, and behind the value, if
	// arguments are texts. No value has one of the Marks.
	Argument [3]string
	Marks    []string
	OneLine  bool // arguments have no line feed
	One      bool // a reply has one call
}

// SyntaxOf returns the syntax of a format, with the pattern of the format plain, for calls of tools. hasToken
// reports whether the tokenizer has a special token; the formats of Mistral differ by it. It returns false for
// a format that nobody knows how to write.
func SyntaxOf(format, pattern string, tools json.RawMessage, hasToken func(name string) bool) (Syntax, bool) {
	switch format {
	case "hermes":
		return Syntax{
			Before: hermesOpen + "\n" + `{"name": "`, Between: `", "arguments": `, After: "}\n" + hermesClose, Separator: "\n",
		}, true
	case "llama3_json":
		return Syntax{Before: `{"name": "`, Between: `", "parameters": `, After: "}", Separator: "; "}, true
	case "mistral":
		if hasToken(mistralArgs) {
			return Syntax{Before: mistralCalls, Between: mistralArgs}, true
		}
		return Syntax{
			Open: mistralCalls + " [", Before: `{"name": "`, Between: `", "arguments": `, After: "}", Separator: ", ", Close: "]",
		}, true
	case "pythonic":
		return Syntax{Open: "[", Between: "(", After: ")", Separator: ", ", Close: "]", Python: true}, true
	case "qwen3_coder":
		return Syntax{
			Before: hermesOpen + "\n" + coderFunction, Between: ">\n", After: coderFunctionClose + "\n" + hermesClose, Separator: "\n",
			Argument: [3]string{coderParameter, ">\n", "\n" + coderParameterClose + "\n"},
			Marks:    []string{coderParameter, coderParameterClose},
		}, true
	case plain:
		return plainSyntax(pattern, tools)
	}
	return Syntax{}, false
}

// plainSyntax returns the shortest calls that a pattern with the groups name and arguments matches, if the
// pattern reads them as they were written.
func plainSyntax(pattern string, tools json.RawMessage) (Syntax, bool) {
	p, err := newPlain(pattern)
	re, bad := syntax.Parse(pattern, syntax.Perl)
	if err != nil || bad != nil {
		return Syntax{}, false
	}
	w := callWriter{parts: make([]strings.Builder, 1)}
	if !w.write(re) || !slices.Equal(w.groups, []string{"name", "arguments"}) {
		return Syntax{}, false
	}
	s := Syntax{Before: w.parts[0].String(), Between: w.parts[1].String(), After: w.parts[2].String(), Separator: "\n"}
	inString, err := marshal(map[string]any{"a": []any{map[string]any{}, "} ] )\n" + s.After}})
	if err != nil {
		return Syntax{}, false
	}
	for name := range declaredTools(tools) {
		reads := func(arguments string, n int) bool {
			one := s.Before + name + s.Between + arguments + s.After
			content, calls, err := p.Parse(strings.TrimSuffix(strings.Repeat(one+s.Separator, n), s.Separator), tools)
			isOther := func(c trinity.ToolCall) bool { return c.Name != name || string(c.Arguments) != arguments }
			return err == nil && content == "" && len(calls) == n && !slices.ContainsFunc(calls, isOther)
		}
		if !reads("{}", 1) || !reads(string(inString), 1) {
			return Syntax{}, false
		}
		s.OneLine = s.OneLine || !reads("{\n  \"a\": 1}", 1)
		s.One = s.One || !reads(string(inString), 2)
	}
	return s, true
}

// callWriter writes the shortest text of an expression in parts, of which each ends at a group with a name.
type callWriter struct {
	parts  []strings.Builder
	groups []string
}

// write reports whether the expression has named groups where each text has them.
func (w *callWriter) write(re *syntax.Regexp) bool {
	out, before := &w.parts[len(w.parts)-1], len(w.groups)
	switch re.Op {
	case syntax.OpCapture:
		if re.Name != "" {
			w.groups, w.parts = append(w.groups, re.Name), append(w.parts, strings.Builder{})
			return true
		}
		return w.write(re.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !w.write(sub) })
	case syntax.OpLiteral:
		out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		if len(re.Rune) == 0 {
			return false
		}
		out.WriteRune(re.Rune[0])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteByte(' ')
	case syntax.OpStar, syntax.OpQuest:
		return re.MaxCap() == 0
	case syntax.OpAlternate, syntax.OpPlus:
		return re.MaxCap() == 0 && w.write(re.Sub[0])
	case syntax.OpRepeat:
		for range re.Min {
			if !w.write(re.Sub[0]) {
				return false
			}
		}
		return len(w.groups) == before && re.MaxCap() == 0
	}
	return re.Op != syntax.OpNoMatch
}
