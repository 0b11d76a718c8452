package main

import "golang.org/x/sys/cpu"

// fmaLoops are those that this processor runs.
func fmaLoops() (out []fmaLoop) {
	const accumulators = 12
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		out = append(out, fmaLoop{run: multiplyAdd256, flops: accumulators * 8 * 2})
	}
	if cpu.X86.HasAVX512F {
		out = append(out, fmaLoop{run: multiplyAdd512, flops: accumulators * 16 * 2})
	}
	return out
}

//go:noescape
func multiplyAdd256(turns int)

//go:noescape
func multiplyAdd512(turns int)
