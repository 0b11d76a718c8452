// Package cpu is the embedded engine. It trains decoder-only transformers on the processor in
// float32, either all weights or LoRA adapters (Hu et al. 2021), and samples from them.
//
// The engine packs a batch: sequences of any lengths follow each other without padding, a prefix
// that sequences share is computed once, forward and backward, and the vocabulary projection covers
// only tokens that a loss can see. Results have the same bits for any number of cores.
package cpu
