// Package cpu is the embedded training engine: forward, backward and optimizer of decoder-only transformers on the processor, in float32, with
// all weights or LoRA adapters (Hu et al. 2021) trained.
//
// A batch is packed: sequences of any lengths lie behind one another without padding, tokens that sequences share at their start are
// computed once, forward and backward, and the vocabulary projection is done only for tokens that a loss can see. Results have the
// same bits for any number of cores.
package cpu
