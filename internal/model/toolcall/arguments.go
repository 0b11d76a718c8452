package toolcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// arguments is the JSON object of a call's arguments, in the order in which the model wrote them.
type arguments struct {
	names []string
	text  bytes.Buffer
}

// add adds an argument. It returns an error if the call has the argument already.
func (a *arguments) add(name string, value json.RawMessage) error {
	if slices.Contains(a.names, name) {
		return fmt.Errorf("it has the argument %q twice", name)
	}
	if len(a.names) > 0 {
		a.text.WriteString(", ")
	}
	a.names = append(a.names, name)
	key, err := marshal(name)
	if err != nil {
		return err
	}
	a.text.Write(key)
	a.text.WriteString(": ")
	a.text.Write(value)
	return nil
}

func (a *arguments) object() json.RawMessage {
	return slices.Concat(json.RawMessage("{"), a.text.Bytes(), json.RawMessage("}"))
}

// marshal returns a value in JSON, with < and > as they are: templates show them to the model.
func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
