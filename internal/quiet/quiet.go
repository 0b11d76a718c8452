// Package quiet drops what a library prints while it is initialised. It works because Go initialises
// packages in the order of their import paths: this path sorts before go.starlark.net.
package quiet

import (
	"bytes"
	"io"
	"log"
	"os"
)

func init() { log.SetOutput(filter{os.Stderr}) }

// reserves begins what Starlark says under `ulimit -v`: its integers take a little longer.
const reserves = "Starlark failed to allocate 4GB address space"

// filter is a writer that drops lines.
type filter struct{ io.Writer }

func (f filter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(reserves)) {
		return len(line), nil
	}
	return f.Writer.Write(line)
}
