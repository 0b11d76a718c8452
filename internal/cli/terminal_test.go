package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Names from outside cannot write on the terminal.
func TestErrorsShowEscapesAsText(t *testing.T) {
	var out bytes.Buffer
	if code := Main([]string{"run", "a\x1b[2J\x00.yaml"}, strings.NewReader(""), &out, &out); code == 0 {
		t.Error("there is no such file")
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\x00") || !strings.Contains(text, `a\x1b[2J\x00.yaml`) {
		t.Errorf("printed %q", text)
	}
}
