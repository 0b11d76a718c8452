package dataset

import (
	"encoding/json"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// assembler rebuilds nested records from columns with repetition and definition levels (Melnik et
// al. 2010, "Dremel").
type assembler struct {
	root    *node
	columns [][]parquet.Value // of the current row, by leaf
}

// node is a field of the schema.
type node struct {
	name     string
	optional bool
	repeated bool
	kind     kind
	fields   []*node // nil for a leaf
	convert  func(parquet.Value) any
	leaves   [2]int // the columns below it: first, and one after the last
	rep, def int    // levels at which the node itself is present
}

type kind int

const (
	plain  kind = iota
	list        // a group around a repeated group of one element
	keyMap      // a group around a repeated group of key and value
)

// newAssembler returns the assembler of a file's rows. elements are the schema as the file has it.
func newAssembler(schema *parquet.Schema, elements []format.SchemaElement) *assembler {
	s := schemaReader{declared: elements}
	root := &node{fields: s.fieldsOf(schema, 0, 0)}
	root.leaves = [2]int{0, s.leaves}
	return &assembler{root: root, columns: make([][]parquet.Value, s.leaves)}
}

// schemaReader reads the nodes of a schema in the order of the file.
type schemaReader struct {
	declared []format.SchemaElement // those that are left
	leaves   int                    // so far
}

// leaf returns what the file declares of the next leaf.
func (s *schemaReader) leaf() *format.SchemaElement {
	for len(s.declared) > 0 {
		element := &s.declared[0]
		s.declared = s.declared[1:]
		if element.Type.Valid {
			return element
		}
	}
	return &format.SchemaElement{}
}

func (s *schemaReader) fieldsOf(parent parquet.Node, rep, def int) []*node {
	var fields []*node
	for _, f := range parent.Fields() {
		n := &node{name: f.Name(), optional: f.Optional(), repeated: f.Repeated(), rep: rep, def: def}
		if n.optional || n.repeated {
			n.def++
		}
		if n.repeated {
			n.rep++
		}
		n.leaves[0] = s.leaves
		if f.Leaf() {
			n.convert = converter(f.Type(), s.leaf())
			s.leaves++
		} else {
			n.fields = s.fieldsOf(f, n.rep, n.def)
			n.kind = kindOf(f, n.fields)
		}
		n.leaves[1] = s.leaves
		fields = append(fields, n)
	}
	return fields
}

// kindOf reads the annotations LIST and MAP, in the new or the old form. It ignores them if the
// group does not have their shape.
func kindOf(f parquet.Node, fields []*node) kind {
	if len(fields) != 1 || !fields[0].repeated {
		return plain
	}
	isList, isMap := false, false
	if l := f.Type().LogicalType(); l != nil {
		_, isList = l.Value.(*format.ListType)
		_, isMap = l.Value.(*format.MapType)
	}
	if c := f.Type().ConvertedType(); c != nil {
		isList = isList || *c == deprecated.List
		isMap = isMap || *c == deprecated.Map || *c == deprecated.MapKeyValue
	}
	switch {
	case isList:
		return list
	case isMap && len(fields[0].fields) == 2:
		return keyMap
	}
	return plain
}

// row rebuilds one record.
func (a *assembler) row(row parquet.Row) (map[string]any, error) {
	for i := range a.columns {
		a.columns[i] = nil
	}
	seen := 0
	var err error
	row.Range(func(column int, values []parquet.Value) bool {
		if column < 0 || column >= len(a.columns) || len(values) == 0 {
			err = fmt.Errorf("a value of column %d, which the schema does not have", column)
			return false
		}
		a.columns[column] = values
		seen++
		return true
	})
	if err == nil && seen != len(a.columns) {
		err = fmt.Errorf("%d of %d columns have no value", len(a.columns)-seen, len(a.columns))
	}
	if err != nil {
		return nil, err
	}
	return a.root.group(a.columns)
}

// group rebuilds the fields of a group. columns hold the values of its leaves for one occurrence
// of the group.
func (n *node) group(columns [][]parquet.Value) (map[string]any, error) {
	m := make(map[string]any, len(n.fields))
	for _, f := range n.fields {
		v, err := f.value(columns[f.leaves[0]-n.leaves[0] : f.leaves[1]-n.leaves[0]])
		if err != nil {
			return nil, err
		}
		m[f.name] = v
	}
	return m, nil
}

// value rebuilds a field from the columns below it.
func (n *node) value(columns [][]parquet.Value) (any, error) {
	if len(columns) == 0 {
		return map[string]any{}, nil // a group without fields
	}
	present := columns[0][0].DefinitionLevel() >= n.def
	switch {
	case n.repeated:
		if !present {
			return []any{}, nil
		}
		return n.elements(columns)
	case !present:
		return nil, nil
	}
	return n.single(columns)
}

// elements rebuilds the occurrences of a repeated field. Each begins at a value whose repetition
// level is not above the field's.
func (n *node) elements(columns [][]parquet.Value) ([]any, error) {
	out := []any{}
	rest := append([][]parquet.Value(nil), columns...)
	for len(rest[0]) > 0 {
		one := make([][]parquet.Value, len(rest))
		for i, c := range rest {
			if len(c) == 0 {
				return nil, fmt.Errorf("the columns of %s have different numbers of elements", n.name)
			}
			end := 1
			for end < len(c) && c[end].RepetitionLevel() > n.rep {
				end++
			}
			one[i], rest[i] = c[:end], c[end:]
		}
		v, err := n.single(one)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// single rebuilds one occurrence that is not null.
func (n *node) single(columns [][]parquet.Value) (any, error) {
	switch {
	case n.fields == nil:
		return n.convert(columns[0][0]), nil
	case n.kind == list:
		return n.listed(columns)
	case n.kind == keyMap:
		return n.mapped(columns)
	}
	return n.group(columns)
}

// listed returns the elements of a list. In the three-level layout each is wrapped in a group of
// one field; in the two-level layout of old writers the repeated field is the element.
func (n *node) listed(columns [][]parquet.Value) (any, error) {
	inner := n.fields[0]
	v, err := inner.value(columns)
	if err != nil || len(inner.fields) != 1 || inner.name == "array" || inner.name == n.name+"_tuple" {
		return v, err
	}
	elements := v.([]any)
	for i, e := range elements {
		if m, ok := e.(map[string]any); ok {
			elements[i] = m[inner.fields[0].name]
		}
	}
	return elements, nil
}

// mapped makes an object of keys and values. See [addKey].
func (n *node) mapped(columns [][]parquet.Value) (any, error) {
	inner := n.fields[0]
	v, err := inner.value(columns)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, e := range v.([]any) {
		entry := e.(map[string]any)
		if err := addKey(out, entry[inner.fields[0].name], entry[inner.fields[1].name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addKey adds an entry of a map to an object. A key that is no text becomes its JSON. Two entries with
// one key are an error, because an object holds only one of them.
func addKey(out map[string]any, key, value any) error {
	name, isText := key.(string)
	if !isText {
		text, err := json.Marshal(key)
		if err != nil {
			return err
		}
		name = string(text)
	}
	if _, twice := out[name]; twice {
		return fmt.Errorf("a map has the key %.40q twice", name)
	}
	out[name] = value
	return nil
}
