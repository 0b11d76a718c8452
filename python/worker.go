// Package python holds the Python package that trains with PyTorch and that starts the programs of
// engines, so that the binary needs no installation of it.
package python

import "embed"

// Worker are the files of the package trinity_worker, below trinity_worker/trinity_worker, and its
// description.
//
//go:embed trinity_worker/pyproject.toml trinity_worker/trinity_worker/*.py trinity_worker/trinity_worker/py.typed
var Worker embed.FS

// Protocol is the version of the requests between this program and the package, which announces its
// own (PROTOCOL in __init__.py).
const Protocol = 1
