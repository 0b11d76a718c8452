package main

// int8Rollout decodes with 8-bit weights, what `explorer.rollout_model.quantization: int8` does, beside ourselves in f32. The limits
// that are measured are of f32 products, and say nothing about it.
func int8Rollout() workload {
	w := decode("int8_rollout", 32, rival{name: "ourselves, f32", program: "ourselves", dtype: int8Weights, differs: func(a *assignment) { a.DType = "f32" }})
	w.limit = nil
	return w
}

// int8Weights is the storage that the engine knows as a quantization.
const int8Weights = "int8"
