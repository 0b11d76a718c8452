// Package torch trains with PyTorch. Losses and data stay in Go: the worker, a Python process on
// one or several ranks, holds the models, gives their streams and takes the derivatives of a loss by
// them. docs/develop/worker.md has the requests.
//
// The worker's package is in this binary (package python). A stage has one worker: all models that
// its trainer plug-in opens are in the same processes, which end with the last of them.
package torch
