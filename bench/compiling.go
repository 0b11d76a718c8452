//go:build !past

package main

import "github.com/trinity-go/trinity/engine"

func init() {
	uncompile = func(spec *engine.TrainerSpec) { spec.Compile = new(bool) }
}
