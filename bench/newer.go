//go:build !past

package main

import "github.com/trinity-go/trinity/engine"

// What engines of earlier commits cannot be told.
func init() {
	uncompile = func(spec *engine.TrainerSpec) { spec.Compile = new(bool) }
	draftless = func(spec *engine.SamplerSpec) { spec.Speculate = "off" }
}
