package torch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// PlanMemory implements engine.TrainerOpener. On GPUs it plans one rank, on a CPU all of them.
// TestPlanOfTheMemory compares it with workers.
func (p *plugin) PlanMemory(spec engine.TrainerSpec) ([]engine.MemoryPart, error) {
	cfg, err := model.ReadConfig(spec.ModelPath)
	if head, headed := heads[spec.Head]; err == nil && headed && spec.Train {
		cfg, err = cfg.WithHead(head)
	}
	if err == nil {
		err = errors.Join(checkLayout(cfg, spec), p.args.checkVision(cfg, &spec))
	}
	if err != nil {
		return nil, err
	}
	return newFootprint(cfg, spec, &p.args).plan()
}

// footprint is the memory of one model in a worker.
type footprint struct {
	cfg    *model.Config
	spec   engine.TrainerSpec
	args   *args
	here   int64 // ranks on this machine
	shards int64 // parts into which weights are cut
	free   int64 // bytes of the GPU that has least; 0 if it is not known
	parts  []engine.MemoryPart
}

func newFootprint(cfg *model.Config, spec engine.TrainerSpec, a *args) *footprint {
	f := &footprint{cfg: cfg, spec: spec, args: a, here: int64(max(1, spec.Place.Ranks)), shards: 1}
	if strategyOf(spec) != copies {
		f.shards = f.ranks()
	}
	if f.onGPU() {
		if f.free = spec.Place.GPUBytes; f.free == 0 {
			f.free = gpuFree()
		}
	}
	return f
}

func (f *footprint) ranks() int64 { return f.here * int64(max(1, f.spec.Place.Nodes)) }

func (f *footprint) onGPU() bool { return f.spec.Place.GPUs > 0 }

// What a rank takes besides models, in bytes. That of the CPU is measured with torch 2.15.
const (
	pythonBytes  = 500 << 20 // modules of PyTorch and transformers
	sharedBytes  = 250 << 20 // of these, pages that all ranks of a machine share
	contextBytes = 600 << 20 // CUDA's context, on the GPU
)

// add adds the bytes of one rank.
func (f *footprint) add(kind string, bytes int64, format string, a ...any) {
	part := engine.MemoryPart{Kind: kind, Bytes: bytes, Why: fmt.Sprintf(format, a...)}
	if f.onGPU() {
		part.Device, part.Free = "each GPU", f.free
	} else {
		part.Bytes *= f.here
	}
	f.parts = append(f.parts, part)
}

// addHost adds bytes of this machine.
func (f *footprint) addHost(kind string, bytes int64, format string, a ...any) {
	f.parts = append(f.parts, engine.MemoryPart{Kind: kind, Bytes: bytes, Why: fmt.Sprintf(format, a...)})
}

// plan lists what lasts while the model is open, and what a step needs besides. Models of a worker
// compute one after another, so only the policy's plan has what a step needs.
func (f *footprint) plan() ([]engine.MemoryPart, error) {
	all, trained := f.cfg.Parameters(), f.trained()
	policy := f.spec.Train && f.spec.Head != engine.ValueHead
	if policy {
		f.process()
	}
	f.weights()
	switch {
	case f.spec.LoRA != nil:
		if err := f.adapter(); err != nil {
			return nil, err
		}
	case f.spec.Reference:
		f.add("reference weights", f.frozenBytes()*all/f.shards, "%d bytes a parameter%s", f.frozenBytes(), f.sharded())
		fallthrough
	case f.spec.Train:
		f.optimizer(trained / f.shards)
	}
	if policy {
		f.step()
	}
	return f.parts, nil
}

// trained is the number of parameters that a run without an adapter trains.
func (f *footprint) trained() int64 {
	if f.args.trainsVision(f.cfg, &f.spec) {
		return f.cfg.Parameters()
	}
	return f.cfg.Parameters() - f.visionParameters()
}

func (f *footprint) visionParameters() int64 {
	if v := f.cfg.Vision(); v != nil {
		return v.Parameters
	}
	return 0
}

// images adds what a row takes that is all images. A tower that is not trained keeps nothing of its layers.
func (f *footprint) images(c int64) {
	v := f.cfg.Vision()
	if v == nil {
		return
	}
	patches, layers := int64(f.spec.MicroTokens)*int64(v.Patches), int64(1)
	if f.args.trainsVision(f.cfg, &f.spec) {
		layers = int64(v.Layers)
	}
	// Of each patch a layer keeps two norms, q, k, v and what attention gives, and the inside of the MLP.
	bytes := 2*int64(v.Width)*(4+c) + c*(6*int64(v.Width)+4*int64(v.MLP))
	f.add("images", patches*layers*bytes, "%d patches, of which %d layers of the tower are kept", patches, layers)
}

// process adds what the ranks of a worker take before they load anything.
func (f *footprint) process() {
	f.addHost("worker", pythonBytes+(f.here-1)*(pythonBytes-sharedBytes), "Python, PyTorch and transformers, ranks: %d", f.here)
	if f.onGPU() {
		f.add("context", contextBytes, "CUDA")
	}
}

// weights adds what a model takes.
func (f *footprint) weights() {
	all, bytes := f.cfg.Parameters(), int64(4)
	f.loading()
	if !f.spec.Train {
		bytes = f.frozenBytes()
	}
	f.add("weights", bytes*all/f.shards, "%d bytes a parameter%s", bytes, f.sharded())
}

// adapter adds what an adapter takes, and its optimizer.
func (f *footprint) adapter() error {
	trained, err := adapterParameters(f.cfg, f.spec.LoRA)
	if err != nil {
		return err
	}
	f.add("adapter", 4*trained/f.shards, "float32%s", f.sharded())
	if f.spec.Train {
		f.optimizer(trained / f.shards)
	}
	return nil
}

// loading adds what reading a model takes besides the weights that ranks keep: a block, and the same in their type.
func (f *footprint) loading() {
	f.parts = append(f.parts, engine.MemoryPart{
		Kind: "loading", Bytes: 3 * blockBytes * f.here, Why: fmt.Sprintf("each rank reads its part in blocks; ranks: %d", f.here), Passing: true,
	})
}

// blockBytes are what a rank reads at once of a file, whose numbers may have two bytes.
const blockBytes = 16 << 20

func (f *footprint) sharded() string {
	if f.shards == 1 {
		return ""
	}
	return fmt.Sprintf(", over %d ranks", f.shards)
}

// frozenBytes are the bytes of a parameter that is not trained.
func (f *footprint) frozenBytes() int64 {
	if f.spec.DType == bf16 {
		return 2
	}
	return 4
}

// optimizer adds what the trained parameters of a rank take besides themselves.
func (f *footprint) optimizer(trained int64) {
	f.add("gradient", 4*trained, "float32")
	switch o := f.spec.Optimizer; {
	case optimizerOf(o) == engine.AdamW:
		f.add("moments", 8*trained, "two of AdamW, float32")
	case o.Momentum != 0:
		f.add("moments", 4*trained, "momentum of SGD, float32")
	}
	if f.spec.Ahead {
		f.add("published weights", 4*trained, "the samplers' weights while newer ones are trained")
	}
}

// computeBytes are the bytes of a number in matrix products.
func (f *footprint) computeBytes() int64 {
	if f.args.Compute == bf16 || f.args.Compute == "auto" && f.onGPU() {
		return 2
	}
	return 4
}

// step adds what a micro-batch takes.
func (f *footprint) step() {
	c, again, parts := f.computeBytes(), f.recomputed(), int64(tensorOf(f.spec))
	layer, root := f.layerParameters()
	layer, root = layer/parts, root/parts
	switch {
	case c != 4 && f.ranks() == parts && again == 0:
		f.add("copied weights", c*f.cfg.Parameters()/parts+(c+4)*max(layer, root), "in the type of the products, and the gradients of a layer")
	case f.shards > parts || c != 4: // FSDP gathers weights: all of the root's, and of two layers at a time
		f.gathered(c, root, layer)
		if f.spec.LoRA == nil {
			f.add("new gradients", c*f.newGradients(layer)+4*(root+2*layer), "before they are added, and what the ranks exchange in float32")
		}
	case f.spec.LoRA == nil:
		f.add("new gradients", 4*f.newGradients(layer), "before they are added")
	}
	tokens, layers := int64(f.spec.MicroTokens), int64(f.cfg.NumLayers)
	why := fmt.Sprintf("a row of %d tokens", tokens)
	if n := sequenceOf(f.spec); n > 1 {
		why = fmt.Sprintf("%d tokens of a row that %d ranks hold", tokens, n)
	}
	whole := layers - again
	if again > 0 {
		why += fmt.Sprintf(", %d of %d layers recomputed", again, layers)
		whole += min(again, 2) // of those that are recomputed one exists at a time, and its derivatives
	}
	f.add("activations", tokens*(whole*f.layerBytes(c)+again*c*int64(f.cfg.HiddenSize)+f.besideLayers(c)), "%s", why)
	f.images(c)
	if f.spec.Head == engine.LogprobHead {
		rows := min(int64(f.args.HeadRows), tokens)
		f.add("logits", logitCopies*4*rows*int64(f.cfg.VocabSize)/parts, "%d rows of %d tokens at once", rows, f.cfg.VocabSize)
	}
}

// gathered adds the weights that FSDP gathers for the products: of two layers at a time, or all that stay.
func (f *footprint) gathered(c, root, layer int64) {
	if f.spec.Gathered {
		f.add("gathered weights", c*f.cfg.Parameters()/int64(tensorOf(f.spec)), "of all layers, from the forward to the backward pass")
		return
	}
	f.add("gathered weights", c*(root+2*layer), "of the head and two layers")
}

// newGradients is the number of gradients that exist besides the sums: of a layer, or of the embedding and
// two chunks of a head.
func (f *footprint) newGradients(layer int64) int64 {
	embedding := f.headParameters() / int64(tensorOf(f.spec))
	if f.spec.Head == engine.LogprobHead {
		embedding *= 3
	}
	return max(layer, embedding)
}

// logitCopies are the float32 numbers for each logit of a chunk in the backward pass of the head.
const logitCopies = 6

// recomputed is the number of layers whose activations the backward pass computes again.
func (f *footprint) recomputed() int64 {
	if f.args.Recompute {
		return int64(f.cfg.NumLayers)
	}
	return int64(f.spec.Recompute)
}

// layerParameters returns the parameters of the largest layer, and those outside layers.
func (f *footprint) layerParameters() (layer, root int64) {
	root = int64(f.cfg.VocabSize)*int64(f.cfg.HiddenSize) + int64(f.cfg.HiddenSize)
	if !f.cfg.TieEmbeddings && f.spec.Head == engine.LogprobHead {
		root += f.headParameters()
	}
	return (f.cfg.Parameters() - f.visionParameters() - root) / int64(f.cfg.NumLayers), root
}

func (f *footprint) headParameters() int64 { return int64(f.cfg.VocabSize) * int64(f.cfg.HiddenSize) }

// layerBytes are the bytes that a layer keeps for its backward pass, for each token: what
// transformers' layers and the attention kernel save, with c bytes a number.
func (f *footprint) layerBytes(c int64) int64 {
	parts := tensorOf(f.spec)
	hidden, heads := int64(f.cfg.HiddenSize), int64(f.cfg.NumHeads*f.cfg.HeadDim/parts)
	keys := int64(f.cfg.NumKVHeads * f.cfg.HeadDim / parts)
	norms := 2 * hidden * (4 + 2*c)                        // input in float32, normalised, and weighted
	attention := c*5*heads + 4*int64(f.cfg.NumHeads/parts) // keys and values are repeated for all heads
	if f.cfg.QKNorm {
		attention += (heads + keys) * (4 + 2*c)
	}
	if f.spec.LoRA != nil { // outputs of the adapters
		attention += c * (heads + 2*keys + 2*hidden + 2*int64(f.cfg.WidestMLP()))
	}
	inner := int64(f.cfg.IntermediateSize / parts)
	if m := f.cfg.Mixture; m != nil {
		if l := f.spec.LoRA; l != nil && (l.Path != "" || len(l.TargetParameters) > 0) { // of those of experts
			attention += c * int64(m.PerToken) * (2*int64(m.Size) + hidden)
		}
		inner = max(int64(f.cfg.DenseSize()), int64(m.PerToken)*int64(m.Size)+int64(m.PerToken)*hidden)
	}
	return norms + attention + c*4*inner
}

// besideLayers are bytes for each token outside the layers' activations: embeddings and hidden states,
// and the derivatives inside one layer.
func (f *footprint) besideLayers(c int64) int64 {
	return c * (6*int64(f.cfg.HiddenSize) + 3*int64(f.cfg.WidestMLP()))
}

// adapterParameters counts the numbers of an adapter.
func adapterParameters(cfg *model.Config, spec *engine.LoRASpec) (n int64, err error) {
	lora := model.NewLoRA(spec)
	if spec.Path != "" {
		file, err := model.OpenAdapter(spec.Path, cfg)
		if err != nil {
			return 0, fmt.Errorf("torch: %w", err)
		}
		defer file.Close()
		lora = file.LoRA
	}
	tensors, err := lora.Tensors(cfg)
	if err != nil {
		return 0, fmt.Errorf("torch: lora: %w", err)
	}
	for _, t := range tensors {
		n += int64(t.Shape[0]) * int64(t.Shape[1])
	}
	return n, nil
}

// gpuFree returns the free bytes of the GPU that has least, or 0 if PyTorch would find none here.
var gpuFree = sync.OnceValue(func() int64 {
	visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	command := []string{"--query-gpu=memory.free", "--format=csv,noheader,nounits"}
	switch {
	case set && (visible == "" || visible == "-1"):
		return 0
	case set:
		command = append(command, "--id="+visible)
	}
	program := exec.Command("nvidia-smi", command...)
	program.WaitDelay = time.Second
	out, err := program.Output()
	if err != nil {
		return 0
	}
	return leastFree(string(out))
})

// leastFree reads the answer of nvidia-smi, in MiB.
func leastFree(text string) (least int64) {
	for _, line := range strings.Fields(text) {
		if n, err := strconv.ParseInt(line, 10, 64); err == nil {
			least = cmp.Or(min(least, n<<20), n<<20)
		}
	}
	return least
}
