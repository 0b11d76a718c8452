// Package python holds the Python package that trains with PyTorch, so that the binary needs no
// installation of it.
package python

import "embed"

// Worker are the files of the package trinity_worker, below trinity_worker/trinity_worker.
//
//go:embed trinity_worker/trinity_worker/*.py
var Worker embed.FS
