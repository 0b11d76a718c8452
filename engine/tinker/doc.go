// Package tinker trains and samples through a service that speaks the Tinker API: a hosted one, or trinity service.
//
// A service gives log-probabilities, and takes the derivatives of a loss by them as weights of cross_entropy. So a run
// computes its own losses here, and the gradient is exact.
package tinker
