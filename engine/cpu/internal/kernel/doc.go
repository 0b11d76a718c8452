// Package kernel holds the compute kernels of the CPU engine: matrix products, attention, and the
// row and vector operations of a transformer, forward and backward, in assembly for AVX-512, AVX2
// and NEON with a portable fallback.
//
// Results do not depend on how the work was cut. Every element of a matrix product is one chain of
// fused f32 multiply-adds in increasing k, and every other reduction has an order given by the
// length of its own row. So a row has the same bits in any batch, with any number of cores and
// under any kernel set ([Available]): a token scored while sampling and while training gets the
// same logits.
//
// Weights may be kept in bf16 or in 8-bit integers ([Storage]). Integer products are summed
// exactly, block by block of k, and the blocks in f32 in increasing k, so what holds of f32
// products holds of them.
//
// All data is float32, row-major; a [Matrix] carries its own row stride. Shapes are the caller's
// promise: a slice shorter than its shape, or shapes that do not fit one another, panic before any
// memory is touched.
package kernel

//go:generate go run ./internal/gen
