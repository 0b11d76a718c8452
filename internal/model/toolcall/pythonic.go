package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode"

	"go.starlark.net/syntax"

	"github.com/trinity-go/trinity"
)

func init() {
	register("pythonic", pythonic{}, func(template string) bool {
		for _, mark := range []string{"func_name1(", pythonStart, "<|tool_list_start|>"} {
			if strings.Contains(template, mark) {
				return true
			}
		}
		return false
	})
}

const pythonStart = "<|python_start|>"

// pythonTags stand around the calls of Llama 4 and of LFM2.
var pythonTags = [][2]string{{pythonStart, "<|python_end|>"}, {"<|tool_call_start|>", "<|tool_call_end|>"}}

var beginsList = regexp.MustCompile(`^\[\s*[\pL_][\pL\pN_.]*\s*\(`)

// mayBeginList matches what more text may turn into the beginning of a list of calls.
var mayBeginList = regexp.MustCompile(`^(\[\s*([\pL_][\pL\pN_.]*\s*)?)?$`)

// pythonic reads calls that are written as a list in Python, as Llama 3.2 and 4, ToolACE and LFM2 do:
// [f(a=1, b="text"), g()]. Between a model's tags there may be text around the list. A reply that is
// nothing but calls of the tools needs no brackets.
type pythonic struct{}

func (pythonic) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	if list := strings.TrimSpace(text); beginsList.MatchString(list) {
		calls, err := pythonCalls(list)
		return "", calls, err
	}
	if name, calls, err := bareCalls(text, tools); name != "" {
		return "", calls, err
	}
	content, rest, closing := pythonNext(text)
	var calls []trinity.ToolCall
	for closing != "" {
		inside, after := cutOutside(rest, closing) // Llama 4 leaves the closing tag out
		more, err := pythonCalls(strings.TrimSpace(inside))
		if err != nil {
			return "", nil, err
		}
		if calls == nil {
			content = strings.TrimRight(content, "\n")
		}
		calls = append(calls, more...)
		var between string
		between, rest, closing = pythonNext(after)
		content += between
	}
	if calls == nil {
		return unlisted(text, tools)
	}
	return content, calls, nil
}

// pythonNext splits text at the first opening tag. closing is the tag that belongs to it, "" if there
// is none.
func pythonNext(text string) (content, rest, closing string) {
	at := len(text)
	for _, tags := range pythonTags {
		if i := strings.Index(text, tags[0]); i >= 0 && i < at {
			at, rest, closing = i, text[i+len(tags[0]):], tags[1]
		}
	}
	return text[:at], rest, closing
}

// cutOutside is strings.Cut at the first mark that stands in no string of Python's.
func cutOutside(text, mark string) (before, after string) {
	quote := ""
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case quote == "" && strings.HasPrefix(text[i:], mark):
			return text[:i], text[i+len(mark):]
		case quote == "" && (c == '"' || c == '\''):
			quote = quoteAt(text[i:])
			i += len(quote)
		case quote != "" && c == '\\':
			i += 2
		case quote != "" && strings.HasPrefix(text[i:], quote):
			i += len(quote)
			quote = ""
		default:
			i++
		}
	}
	return text, ""
}

// unlisted reads a reply that does not begin with a list of calls: it is text. A call of one of the tools
// beside other text, or in another form, is an error.
func unlisted(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	if name, found := callBesideText(text, tools); found {
		return "", nil, fmt.Errorf("the call of %s stands beside other text: %s", name, brief(text))
	}
	return unmarked(text, tools, "Python call", "")
}

// pythonCalls reads a list of calls, or one call.
func pythonCalls(list string) ([]trinity.ToolCall, error) {
	parsed, err := parsePython(list)
	if err != nil {
		return nil, fmt.Errorf("the calls are no list of Python calls: %s", brief(list))
	}
	of, ok := parsed.(*syntax.ListExpr)
	if !ok {
		of = &syntax.ListExpr{List: []syntax.Expr{parsed}} // one call without brackets
	}
	calls := []trinity.ToolCall{}
	for _, e := range of.List {
		call, err := pythonCall(e)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, brief(list))
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// deepestPython bounds the brackets and signs that stand around a value of Python's. The parser calls
// itself for each.
const deepestPython = 1000

// parsePython parses an expression of Python's.
func parsePython(text string) (syntax.Expr, error) {
	depth := 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth > deepestPython {
			return nil, errors.New("the brackets are too deep")
		}
	}
	if strings.Contains(text, strings.Repeat("-", deepestPython)) {
		return nil, errors.New("too many signs")
	}
	return syntax.LegacyFileOptions().ParseExpr("", escaped(text), 0)
}

// escaped doubles the backslashes that begin no escape sequence in a string: Python keeps them, and the
// parser knows none.
func escaped(text string) string {
	var out strings.Builder
	quote, isRaw := "", false
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; {
		case quote == "" && (c == '"' || c == '\''):
			quote, isRaw = quoteAt(text[i:]), i > 0 && (text[i-1] == 'r' || text[i-1] == 'R')
			n = len(quote)
		case quote != "" && c == '\\' && i+1 < len(text):
			if n = 2; !isRaw && !strings.ContainsRune("\n\\'\"abfnrtv01234567xuU", rune(text[i+1])) {
				out.WriteByte('\\')
			}
		case quote != "" && strings.HasPrefix(text[i:], quote):
			n, quote = len(quote), ""
		}
		out.WriteString(text[i : i+n])
		i += n
	}
	return out.String()
}

// quoteAt returns the quote that text begins with: one character or three.
func quoteAt(text string) string {
	if three := strings.Repeat(text[:1], 3); strings.HasPrefix(text, three) {
		return three
	}
	return text[:1]
}

func (pythonic) Settled(text string) string {
	if list := strings.TrimLeftFunc(text, unicode.IsSpace); beginsList.MatchString(list) || mayBeginList.MatchString(list) ||
		mayBeginBare.MatchString(list) {
		return ""
	}
	return strings.TrimRight(before(text, pythonTags[0][0], pythonTags[1][0]), "\n")
}

func pythonCall(e syntax.Expr) (trinity.ToolCall, error) {
	call, ok := e.(*syntax.CallExpr)
	if !ok {
		return trinity.ToolCall{}, errors.New("the list has something other than calls")
	}
	name, ok := pythonName(call.Fn)
	if !ok {
		return trinity.ToolCall{}, errors.New("a call has no name")
	}
	var all arguments
	for _, argument := range call.Args {
		given, ok := argument.(*syntax.BinaryExpr)
		if !ok || given.Op != syntax.EQ {
			return trinity.ToolCall{}, fmt.Errorf("the call of %s has an argument without a name", name)
		}
		value, err := pythonValue(given.Y)
		if err == nil {
			var raw json.RawMessage
			if raw, err = marshal(value); err == nil {
				err = all.add(given.X.(*syntax.Ident).Name, raw)
			}
		}
		if err != nil {
			return trinity.ToolCall{}, fmt.Errorf("the call of %s: %w", name, err)
		}
	}
	return trinity.ToolCall{Name: name, Arguments: all.object()}, nil
}

// pythonName returns a name, with dots.
func pythonName(e syntax.Expr) (string, bool) {
	switch e := e.(type) {
	case *syntax.Ident:
		return e.Name, true
	case *syntax.DotExpr:
		before, ok := pythonName(e.X)
		return before + "." + e.Name.Name, ok
	}
	return "", false
}

// pythonValue returns the value of a literal.
func pythonValue(e syntax.Expr) (any, error) {
	switch e := e.(type) {
	case *syntax.Literal:
		if e.Token != syntax.BYTES {
			return e.Value, nil
		}
	case *syntax.Ident:
		switch e.Name {
		case "True", "true":
			return true, nil
		case "False", "false":
			return false, nil
		case "None", "null":
			return nil, nil
		}
		return nil, fmt.Errorf("%s is no value", e.Name)
	case *syntax.ParenExpr:
		return pythonValue(e.X)
	case *syntax.UnaryExpr:
		return negated(e)
	case *syntax.ListExpr:
		return pythonList(e.List)
	case *syntax.TupleExpr:
		return pythonList(e.List)
	case *syntax.DictExpr:
		return pythonDict(e)
	}
	return nil, errors.New("an argument is no literal")
}

// negated returns the value of -1 and the like.
func negated(e *syntax.UnaryExpr) (any, error) {
	if e.X == nil {
		return nil, errors.New("an argument is no literal")
	}
	v, err := pythonValue(e.X)
	if err != nil {
		return nil, err
	}
	switch n := v.(type) {
	case int64:
		if e.Op == syntax.MINUS {
			return -n, nil
		}
	case *big.Int:
		if e.Op == syntax.MINUS {
			return new(big.Int).Neg(n), nil
		}
	case float64:
		if e.Op == syntax.MINUS {
			return -n, nil
		}
	default:
		return nil, errors.New("a sign stands before what is no number")
	}
	if e.Op != syntax.PLUS {
		return nil, errors.New("an argument is no literal")
	}
	return v, nil
}

func pythonList(of []syntax.Expr) (any, error) {
	all := []any{}
	for _, e := range of {
		v, err := pythonValue(e)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// keyText returns a key of a dict as JSON has it: Python writes numbers and constants as texts.
func keyText(key any) (string, error) {
	switch key := key.(type) {
	case string:
		return key, nil
	case nil, bool, int64, *big.Int, float64:
		raw, err := marshal(key)
		return string(raw), err
	}
	return "", errors.New("a key of a dict is a list")
}

func pythonDict(e *syntax.DictExpr) (any, error) {
	var all arguments
	for _, entry := range e.List {
		pair := entry.(*syntax.DictEntry)
		key, err := pythonValue(pair.Key)
		if err != nil {
			return nil, err
		}
		name, err := keyText(key)
		if err != nil {
			return nil, err
		}
		v, err := pythonValue(pair.Value)
		if err != nil {
			return nil, err
		}
		raw, err := marshal(v)
		if err != nil {
			return nil, err
		}
		if err := all.add(name, raw); err != nil {
			return nil, err
		}
	}
	return all.object(), nil
}
