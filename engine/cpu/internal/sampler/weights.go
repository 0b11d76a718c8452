package sampler

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// weights are a model's tensors, packed for products. newWeights takes their memory once, and every
// update fills it.
type weights struct {
	embedding kernel.Matrix // [V, H]; empty if the head is tied and f32, whose panels then are the embedding
	layers    []layerWeights
	norm      []float32      // [H]
	head      *kernel.Packed // [H, V]

	rope, local rotations // local is that of layers with a window; empty if they rotate as all do
}

// rotations are the cosines and sines of RoPE, and the factors on queries, by position.
type rotations struct {
	cos, sin kernel.Matrix // [MaxModelLen, rotated pairs]
	query    []float32     // [MaxModelLen]; nil if all factors are 1
}

// layerWeights are the weights of one block. A nil bias or norm means that the architecture has
// none.
type layerWeights struct {
	attentionNorm, mlpNorm []float32 // [H] what a norm multiplies by, here and below
	outNorm, downNorm      []float32 // [H] of what the attention and the MLP give
	qkv, gateUp            linear    // maps with the same input, as one: q, k and v; gate and up
	out, down              linear
	conv                   kernel.ShortConv // in place of attention; without taps in a layer with attention. qkv then gives B, C and x
	mixture                *mixtureWeights  // replaces gateUp and down; nil in a layer without experts
	qNorm, kNorm           []float32        // [HeadDim], or that of all heads
}

// linear is y = x·Wᵀ + bias.
type linear struct {
	w    *kernel.Packed
	bias []float32
}

// newWeights takes the memory of a model's weights and computes its RoPE tables.
func newWeights(cfg *model.Config, opts Options, arena *kernel.Arena) (*weights, error) {
	t := taker{Taker: kernel.Taker{Arena: arena}, storage: opts.Storage, inPlace: opts.InPlace}
	q, kv := cfg.NumHeads*cfg.HeadDim, cfg.NumKVHeads*cfg.HeadDim
	w := &weights{
		norm:   t.Float32(cfg.HiddenSize),
		head:   t.linear(cfg.VocabSize, cfg.HiddenSize, false).w,
		layers: make([]layerWeights, cfg.NumLayers),
	}
	switch {
	case cfg.TieEmbeddings && opts.Storage == kernel.F32:
	case opts.InPlace:
		w.embedding = kernel.NewMatrix(nil, cfg.VocabSize, cfg.HiddenSize)
	default:
		w.embedding = kernel.NewMatrix(t.Float32(cfg.VocabSize*cfg.HiddenSize), cfg.VocabSize, cfg.HiddenSize)
	}
	norms := cfg.Norms()
	for i := range w.layers {
		l, p := &w.layers[i], cfg.Projections(i)
		l.attentionNorm, l.outNorm = t.norm(norms.BeforeAttention, cfg.HiddenSize), t.norm(norms.AfterAttention, cfg.HiddenSize)
		l.mlpNorm, l.downNorm = t.norm(norms.BeforeMLP, cfg.HiddenSize), t.norm(norms.AfterMLP, cfg.HiddenSize)
		l.qkv = t.linear(p.QKV.Out, cfg.HiddenSize, cfg.AttentionBias)
		l.out = t.linear(cfg.HiddenSize, p.Output.In, cfg.AttentionOutputBias)
		if cfg.Sparse(i) {
			l.mixture = t.mixture(cfg)
		} else {
			l.gateUp = t.linear(2*cfg.IntermediateSize, cfg.HiddenSize, cfg.MLPBias)
			l.down = t.linear(cfg.HiddenSize, cfg.IntermediateSize, cfg.MLPBias)
		}
		switch {
		case cfg.Convolves(i):
			l.conv.Taps = t.Matrix(cfg.ShortConv.Taps, cfg.HiddenSize)
		case cfg.WideQKNorm:
			l.qNorm, l.kNorm = t.Float32(q), t.Float32(kv)
		case cfg.QKNorm:
			l.qNorm, l.kNorm = t.Float32(cfg.HeadDim), t.Float32(cfg.HeadDim)
		}
	}
	w.rope = t.rotations(cfg, opts.MaxModelLen)
	if local := cfg.LocalRope(); local != nil {
		w.local = t.rotations(local, opts.MaxModelLen)
	}
	return w, t.Err
}

// norm takes the memory of a norm by its name; nil if the model has none.
func (t *taker) norm(name string, n int) []float32 {
	if name == "" {
		return nil
	}
	return t.Float32(n)
}

// rotations takes and fills the tables of RoPE, unless the arena only counts.
func (t *taker) rotations(cfg *model.Config, length int) (r rotations) {
	frequencies, scale := cfg.InverseFrequencies(length)
	pairs := len(frequencies)
	r.cos, r.sin = kernel.NewMatrix(t.Float32(length*pairs), length, pairs), kernel.NewMatrix(t.Float32(length*pairs), length, pairs)
	if s := cfg.RopeScaling; s != nil && s.QueryBeta != 0 {
		r.query = t.Float32(length)
	}
	if t.Err != nil || r.cos.Data == nil {
		return r
	}
	kernel.Rotations(r.cos, r.sin, frequencies, scale)
	for position := range r.query {
		r.query[position] = cfg.RopeScaling.QueryScale(position)
	}
	return r
}

// embed copies the embedding of a token to dst [H].
func (w *weights) embed(dst []float32, token int) {
	if w.embedding.Rows == 0 {
		w.head.Rows(dst, token, token+1)
		return
	}
	copy(dst, w.embedding.Row(token))
}

// taker takes memory; matrices of weights have the given storage.
type taker struct {
	kernel.Taker
	storage kernel.Storage
	inPlace bool // matrices are elsewhere: see Options.InPlace
}

func (t *taker) linear(out, in int, bias bool) linear {
	var l linear
	switch {
	case t.inPlace:
		l.w = &kernel.Packed{N: out, K: in}
	case t.Err == nil:
		l.w, t.Err = kernel.NewPacked(t.Arena, out, in, t.storage)
	}
	if bias {
		l.bias = t.Float32(out)
	}
	return l
}

// Weights are the weights of a version, by their Hugging Face names.
type Weights struct {
	// Tensor returns a tensor, row-major. The sampler does not keep it, unless it is an embedding and Options.InPlace is set.
	Tensor func(name string) ([]float32, error)
	// Packed returns the matrices of the named maps, which have the same input, as one in f32. A nil function or result means that
	// Tensor has them.
	Packed func(names ...string) *kernel.Packed
}

// loader fills weights from tensors by their Hugging Face names.
type loader struct {
	Weights
	pool        *kernel.Pool
	projections model.Projections // of the layer
	inPlace     bool
	offset      float32 // that norms add to their weights
	norms       model.Norms
	stage       []float32 // the tensors that form one matrix, joined
}

const (
	embeddingName = "model.embed_tokens"
	convName      = "conv.conv.weight" // of a layer
)

// load fills w. After an error, w is a mixture of two versions.
func (w *weights) load(cfg *model.Config, opts *Options, from Weights) error {
	l := loader{Weights: from, pool: opts.Pool, inPlace: opts.InPlace, offset: cfg.NormOffset, norms: cfg.Norms()}
	if err := l.embedding(w); err != nil {
		return err
	}
	for i := range w.layers {
		l.projections = cfg.Projections(i)
		if err := l.layer(&w.layers[i], fmt.Sprintf("model.layers.%d.", i)); err != nil {
			return err
		}
	}
	if err := l.norm(w.norm, l.norms.Final); err != nil {
		return err
	}
	if cfg.TieEmbeddings {
		return l.linear(linear{w: w.head}, embeddingName)
	}
	return l.linear(linear{w: w.head}, "lm_head")
}

// embedding fills the embedding, if the head is not that.
func (l *loader) embedding(w *weights) (err error) {
	const name = embeddingName + ".weight"
	if l.inPlace && w.embedding.Rows > 0 {
		if w.embedding.Data, err = l.Tensor(name); err != nil {
			return fmt.Errorf("sampler: tensor %s: %w", name, err)
		}
		return nil
	}
	if p := l.packed(embeddingName); p != nil && w.embedding.Data != nil {
		p.Rows(w.embedding.Data, 0, p.N)
		return nil
	}
	return l.vector(w.embedding.Data, name)
}

// packed returns the named maps as one matrix in f32; nil if they are tensors.
func (l *loader) packed(names ...string) *kernel.Packed {
	if l.Packed == nil {
		return nil
	}
	return l.Packed(names...)
}

// layer fills the weights of one block.
func (l *loader) layer(w *layerWeights, prefix string) error {
	for _, step := range []func() error{
		func() error { return l.norm(w.attentionNorm, prefix+l.norms.BeforeAttention) },
		func() error { return l.projection(w.qkv, prefix, l.projections.QKV) },
		func() error { return l.norm(w.qNorm, prefix+l.norms.Q) },
		func() error { return l.norm(w.kNorm, prefix+l.norms.K) },
		func() error { return l.taps(&w.conv, prefix+convName) },
		func() error { return l.projection(w.out, prefix, l.projections.Output) },
		func() error { return l.norm(w.outNorm, prefix+l.norms.AfterAttention) },
		func() error { return l.norm(w.mlpNorm, prefix+l.norms.BeforeMLP) },
		func() error { return l.norm(w.downNorm, prefix+l.norms.AfterMLP) },
		func() error { return l.mlp(w, prefix) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mlp fills a block's MLP or its experts.
func (l *loader) mlp(w *layerWeights, prefix string) error {
	if w.mixture != nil {
		return l.mixture(w.mixture, prefix)
	}
	if err := l.projection(w.gateUp, prefix, l.projections.GateUp); err != nil {
		return err
	}
	return l.projection(w.down, prefix, l.projections.Down)
}

// projection fills dst with modules whose names begin with prefix.
func (l *loader) projection(dst linear, prefix string, from model.Projection) error {
	names := make([]string, len(from.Names))
	for i, name := range from.Names {
		names[i] = prefix + name
	}
	return l.linear(dst, names...)
}

// vector fills dst with a tensor. dst is nil if the model has no such tensor.
func (l *loader) vector(dst []float32, name string) error {
	if dst == nil {
		return nil
	}
	v, err := l.Tensor(name)
	if err != nil {
		return fmt.Errorf("sampler: tensor %s: %w", name, err)
	}
	if len(v) != len(dst) {
		return fmt.Errorf("sampler: tensor %s has %d elements; the config demands %d", name, len(v), len(dst))
	}
	copy(dst, v)
	return nil
}

// norm fills dst with what a norm multiplies by. dst is nil if the model has no such norm.
func (l *loader) norm(dst []float32, module string) error {
	err := l.vector(dst, module+".weight")
	if l.offset != 0 {
		for i := range dst {
			dst[i] += l.offset
		}
	}
	return err
}

// linear packs the weights of the named maps, which have the same input, as one matrix.
func (l *loader) linear(dst linear, names ...string) error {
	switch p := l.packed(names...); {
	case p != nil && (p.N != dst.w.N || p.K != dst.w.K):
		return fmt.Errorf("sampler: tensors %v are [%d, %d]; the config demands [%d, %d]", names, p.N, p.K, dst.w.N, dst.w.K)
	case p != nil && l.inPlace:
		*dst.w = *p
	case p != nil:
		dst.w.Pack(l.pool, p.Weights().T())
	case l.inPlace:
		return fmt.Errorf("sampler: tensors %v are not packed, so they cannot be read in place", names)
	default:
		whole, err := l.matrix(dst.w.N, dst.w.K, names)
		if err != nil {
			return err
		}
		dst.w.Pack(l.pool, kernel.NewMatrix(whole, dst.w.N, dst.w.K).T())
	}
	if dst.bias == nil {
		return nil
	}
	return l.biases(dst.bias, names)
}

// matrix returns the weights [n, k] of the named maps: the tensor itself if there is one name, a
// joined copy otherwise.
func (l *loader) matrix(n, k int, names []string) ([]float32, error) {
	var whole []float32
	l.stage = slices.Grow(l.stage[:0], n*k*min(1, len(names)-1))
	for _, name := range names {
		v, err := l.Tensor(name + ".weight")
		if err != nil {
			return nil, fmt.Errorf("sampler: tensor %s.weight: %w", name, err)
		}
		if len(v)%k != 0 || len(l.stage)+len(v) > n*k {
			return nil, fmt.Errorf("sampler: tensor %s.weight has %d elements; the config needs another size (%d inputs)", name, len(v), k)
		}
		if whole = v; len(names) > 1 {
			l.stage = append(l.stage, v...)
			whole = l.stage
		}
	}
	if len(whole) != n*k {
		return nil, fmt.Errorf("sampler: tensors %v have %d elements; the config demands %d", names, len(whole), n*k)
	}
	return whole, nil
}

// biases fills dst with the biases of the named maps.
func (l *loader) biases(dst []float32, names []string) error {
	n := 0
	for _, name := range names {
		v, err := l.Tensor(name + ".bias")
		if err != nil {
			return fmt.Errorf("sampler: tensor %s.bias: %w", name, err)
		}
		if n+len(v) > len(dst) {
			return fmt.Errorf("sampler: tensor %s.bias has %d elements; the config demands %d", name, len(v), len(dst)-n)
		}
		n += copy(dst[n:], v)
	}
	if n != len(dst) {
		return fmt.Errorf("sampler: biases of %v have %d elements; the config demands %d", names, n, len(dst))
	}
	return nil
}
