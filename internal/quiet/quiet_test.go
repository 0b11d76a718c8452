package quiet

import (
	"bytes"
	"fmt"
	"testing"
)

func TestOnlyTheLineAboutMemoryIsDropped(t *testing.T) {
	var out bytes.Buffer
	w := filter{&out}
	for _, line := range []string{"one\n", reserves + ": cannot allocate memory\n", "two\n"} {
		if n, err := fmt.Fprint(w, line); n != len(line) || err != nil {
			t.Errorf("%q: %d, %v", line, n, err)
		}
	}
	if out.String() != "one\ntwo\n" {
		t.Errorf("it passes on %q", &out)
	}
}
