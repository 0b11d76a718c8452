//go:build !amd64

package main

// fmaLoops has none here: the best product of the kernels stands for the limit.
func fmaLoops() []fmaLoop { return nil }
