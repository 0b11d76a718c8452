package engine

// Layout says how the ranks of an engine divide a model.
type Layout struct {
	Strategy string // shards of the weights on each rank (fsdp2), or copies (ddp); "" leaves it to the engine
	Gathered bool   // with shards: gathered weights stay from the forward to the backward pass
	Sequence int    // ranks that hold the parts of each row; 0 and 1 leave rows whole
	Tensor   int    // ranks that divide each matrix, tensor parallel; 0 and 1 leave matrices whole
}
