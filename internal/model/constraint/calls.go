package constraint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// maxTools bounds the tools of a request whose calls are demanded.
const maxTools = 128

// calls matches calls of tools in the syntax of a model, with arguments that satisfy the tools' schemas.
func (b *builder) calls(c *Calls) (int32, error) {
	syntax, ok := toolcall.SyntaxOf(c.Format, c.Pattern, c.Tools, b.hasToken)
	switch {
	case !ok && c.Pattern != "":
		return none, errors.New("a call cannot be demanded of a model whose tool_call_pattern does not have the groups name and arguments, " +
			"in this order, and reads all names and JSON objects there")
	case !ok && c.Format == toolcall.None:
		return none, errors.New("the model's format of calls is not known: set explorer.rollout_model.tool_call_parser when you start the server")
	case !ok:
		return none, fmt.Errorf("a call cannot be demanded of a model whose calls are in the format %q", c.Format)
	}
	var tools []struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal(c.Tools, &tools); err != nil {
		return none, fmt.Errorf("tools: %w", err)
	}
	if len(tools) > maxTools {
		return none, fmt.Errorf("%d tools; want at most %d", len(tools), maxTools)
	}
	b.syntax, b.isCall, b.keywords = syntax, true, syntax.Python || syntax.Marks != nil
	switch {
	case syntax.Python:
		b.speakPython()
	case syntax.OneLine:
		b.space = b.unit(b.option(b.literal(" ")), unitPlain)
	case syntax.Marks != nil:
		b.avoid(syntax.Marks)
	}
	one, isKnown := none, false
	for _, t := range tools {
		f := t.Function
		if c.Name != "" && f.Name != c.Name {
			continue
		}
		isKnown = true
		arguments, err := b.arguments(f.Parameters)
		if err != nil {
			return none, fmt.Errorf("tool %q: %w", f.Name, err)
		}
		head := syntax.Before + f.Name + syntax.Between
		if strings.Contains(syntax.Before, `"`) {
			head = syntax.Before + spelled(f.Name) + syntax.Between
		}
		one = b.alt(one, b.seq(b.tokens(head), arguments, b.tokens(syntax.After)))
	}
	switch {
	case !isKnown:
		return none, fmt.Errorf("no tool is called %.200q", c.Name)
	case one == none:
		return none, errors.New("no arguments satisfy the parameters of the tools")
	}
	list := one
	if c.Several && !syntax.One {
		list = b.cat(one, b.rep(b.cat(b.tokens(syntax.Separator), one), 0, unlimited))
	}
	return b.seq(b.tokens(syntax.Open), list, b.tokens(syntax.Close)), nil
}

func (b *builder) hasToken(name string) bool { return b.special[name] }

// writes reports whether calls can be written in their format.
func (b *builder) writes(c *Calls) bool {
	_, ok := toolcall.SyntaxOf(c.Format, c.Pattern, c.Tools, b.hasToken)
	return ok
}

// arguments matches the objects that satisfy the schema of a tool.
func (b *builder) arguments(schema json.RawMessage) (int32, error) {
	schema = bytes.TrimSpace(schema)
	switch isAny := len(schema) == 0 || string(schema) == "null" || string(schema) == "{}"; {
	case isAny && b.keywords:
		return empty, nil
	case isAny:
		return b.anyObject(), nil
	case schema[0] != '{':
		return none, errors.New("its parameters are no JSON schema: want an object")
	}
	return b.schema(schema)
}

// speakPython makes values those of Python, whose strings lack some escapes of JSON.
func (b *builder) speakPython() {
	b.words, b.char, b.free = [3]string{"True", "False", "None"}, b.exact, none
	b.text = b.quoted(b.rep(b.char, 0, unlimited))
}

// isPythonName matches names of arguments in Python.
var isPythonName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are the words of Python and Starlark that name no argument.
var reserved = strings.Fields("and as assert async await break class continue def del elif else except finally for from global if import " +
	"in is lambda load nonlocal not or pass raise return try while with yield True False None")

// asKeywords matches the arguments of a call one by one: in Python, name=value, without the brackets, or
// as texts between marks.
func (b *builder) asKeywords(parts []part) (int32, error) {
	members, err := b.members(parts)
	if err != nil {
		return none, err
	}
	comma := b.mark(", ")
	for i, m := range members {
		switch {
		case b.syntax.Python && (!isPythonName.MatchString(m.name) || slices.Contains(reserved, m.name)):
			return none, refuse(parts[0].at, "%q is no name of an argument in Python, in which the model writes calls", m.name)
		case b.syntax.Python:
			members[i].node = b.cat(b.mark(m.name+"="), m.value)
		case m.name == "" || strings.ContainsAny(m.name, ">\n"):
			return none, refuse(parts[0].at, "%q is no name of an argument as the model writes calls: leave > and line feeds out", m.name)
		default:
			comma = empty
			value, err := b.asText(m.places)
			if err != nil {
				return none, err
			}
			a := b.syntax.Argument
			members[i].node = b.seq(b.tokens(a[0]+m.name+a[1]), value, b.tokens(a[2]))
		}
	}
	least, most := between(parts, "minProperties", "maxProperties")
	if least > int32(len(members)) {
		return none, nil
	}
	top := max(1, least)
	if most != unlimited {
		top = max(top, min(most, int32(len(members))))
	}
	return b.ordered(members, least, most, top, comma, func(c int32) int32 {
		if c < least {
			return none
		}
		return empty
	}), nil
}

// tokens matches a text in which the names of special tokens stand for the tokens.
func (b *builder) tokens(text string) int32 {
	var out strings.Builder
	for text != "" {
		longest := ""
		for name := range b.special {
			if len(name) > len(longest) && strings.HasPrefix(text, name) {
				longest = name
			}
		}
		if longest != "" {
			out.WriteString(special + longest)
			text = text[len(longest):]
			continue
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	return b.mark(out.String())
}
