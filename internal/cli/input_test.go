package cli_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/cli"
)

// The lines contain bytes that a script cannot hold.
func TestInputMustBeUTF8(t *testing.T) {
	model := filepath.Join(tiny(t), "model")
	for _, c := range []struct{ name, stdin, want string }{
		{"not UTF-8", "{\"text\":\"\xff\"}\n", "trinity: standard input:1: the line is not UTF-8\n"},
		{"no newline at the end", `{"text":5}`, "trinity: standard input:1: \"text\" is a JSON number: want a text\n"},
		{"zero bytes", "\x00\x00\n", "trinity: standard input:1: not JSON: invalid character '\\x00' looking for beginning of value\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := cli.Main([]string{"score", "--model", model}, strings.NewReader(c.stdin), &stdout, &stderr)
			if code != 1 || stderr.String() != c.want || stdout.Len() != 0 {
				t.Errorf("exit code %d, %q, %q; want 1, %q", code, stdout.String(), stderr.String(), c.want)
			}
		})
	}
}
