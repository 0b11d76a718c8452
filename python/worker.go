// Package python holds the Python packages of the program, so that it needs no installation of them: trinity_go, and
// trinity_worker, which trains with PyTorch and starts the programs of engines.
package python

import "embed"

// files are the packages and their descriptions, each below the folder of its pyproject.toml.
//
//go:embed trinity_worker/pyproject.toml trinity_worker/trinity_worker/*.py trinity_worker/trinity_worker/py.typed
//go:embed trinity_go/boot.py trinity_go/pyproject.toml trinity_go/README.md trinity_go/LICENSE
//go:embed trinity_go/trinity_go/*.py trinity_go/trinity_go/*/*.py trinity_go/trinity_go/py.typed
var files embed.FS

// The folders of files.
const (
	worker = "trinity_worker"
	front  = "trinity_go"
)

// Protocol is the version of the requests between this program and trinity_worker, which announces its
// own (PROTOCOL in __init__.py).
const Protocol = 4
