package toolcall

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// The replies in ../shared/data/field are of users' models; its README files name where each was seen.
func TestRepliesOfUsersModels(t *testing.T) {
	for _, kind := range []string{"toolcall-bare-function", "toolcall-mark-in-string", "toolcall-types"} {
		folder := filepath.Join("..", "..", "..", "..", "shared", "data", "field", kind)
		input, err := os.ReadFile(filepath.Join(folder, "input.jsonl"))
		if err != nil {
			t.Skip("no shared data: ", err)
		}
		expected, err := os.ReadFile(filepath.Join(folder, "expected"))
		if err != nil {
			t.Fatal(err)
		}
		wants := bufio.NewScanner(bytes.NewReader(expected))
		for lines := bufio.NewScanner(bytes.NewReader(input)); lines.Scan() && wants.Scan(); {
			var reply struct {
				Format, Text string
				Tools        json.RawMessage
			}
			var want [][2]any
			if err := json.Unmarshal(lines.Bytes(), &reply); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(wants.Bytes(), &want); err != nil {
				t.Fatal(err)
			}
			_, p, err := Open(reply.Format, "", "")
			if err != nil {
				t.Fatal(err)
			}
			_, calls, err := p.Parse(reply.Text, reply.Tools)
			got := [][2]any{}
			for _, c := range calls {
				var arguments any
				if err := json.Unmarshal(c.Arguments, &arguments); err != nil {
					t.Error(err)
				}
				got = append(got, [2]any{c.Name, arguments})
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q: %v, %v, want %v", kind, reply.Text, got, err, want)
			}
		}
	}
}
