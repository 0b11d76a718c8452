package trinity

import "context"

// Batch is what an engine computes at once: one micro-batch of an optimizer step.
type Batch struct {
	Step        int64         // trainer step, from 1
	Experiences []*Experience // of this micro-batch
	Whole       []*Experience // of the whole optimizer step: losses normalise over it, so the gradient does not depend on the cut
}

// Streams name the per-token values that a loss reads besides the log-probabilities.
type Streams struct {
	Entropy       bool // entropy of the next-token distribution
	Value         bool // the critic's value: what an engine with a value head must be asked for, and no other can be
	Discriminator bool // mean entropy discriminator; Engine.Forward only, for it has no gradient
	// Divergence of the next-token distribution from that of a teacher; Kind "" for none.
	Divergence Divergence
}

// Divergence names a distance between the distribution p of a teacher and the trained model's, q, over the whole vocabulary, both at the
// experience's temperature.
type Divergence struct {
	Kind string  // ForwardKL, ReverseKL or JSD
	Beta float64 // of JSD: the weight of p in the mixture m = Beta·p + (1−Beta)·q; more than 0 and less than 1
}

// The kinds of divergence.
const (
	ForwardKL = "forward_kl" // KL(p‖q) = Σ p·ln(p/q)
	ReverseKL = "reverse_kl" // KL(q‖p) = Σ q·ln(q/p)
	JSD       = "jsd"        // Beta·KL(p‖m) + (1−Beta)·KL(q‖m), the generalised Jensen–Shannon divergence
)

// TokenStats are the per-token values of one sequence under the current weights, at the experience's temperature. Index t speaks of
// Tokens[t]: Logprob[t] = log p(Tokens[t] | Tokens[<t]), Entropy[t] is of the distribution that Tokens[t] was drawn from, and Value[t] is V of
// the state that Tokens[t] was taken in, Tokens[<t]: computed from the same hidden state as Logprob[t]. So GAE (Schulman et al. 2016) has
// δ_t = r_t + γ·Value[t'] − Value[t] with t' the next token that the mask holds, and no value after the last. Entries are 0 where the mask is
// false. An engine has log-probabilities and entropies, or values, as its head is.
//
// Discriminator[t] = Σ_v p_v²·(H + ln p_v) over the vocabulary, with H = Entropy[t]: the mean of the entropy discriminator p_v·(H + ln p_v),
// by which taking the logit of v up lowers the entropy (Wang et al. 2026, "On the entropy dynamics in reinforcement fine-tuning").
type TokenStats struct {
	Logprob       []float32 // [T] nats; nil from a value head
	Entropy       []float32 // [T] nats; nil unless asked for
	Value         []float32 // [T]; nil unless asked for, which only a value head can be
	Discriminator []float32 // [T] nats; nil unless asked for
	// Divergence [T] nats, of the distributions that Tokens[t] was drawn from and that the teacher would have drawn it from; nil unless asked for.
	Divergence []float32
}

// TokenGrads are the derivatives of the loss by each entry of TokenStats. A nil slice means zero.
type TokenGrads struct {
	Logprob    []float32 // [T]
	Entropy    []float32 // [T]
	Value      []float32 // [T]
	Divergence []float32 // [T]
}

// Loss maps per-token streams to a scalar and its derivatives. It knows nothing of models: an engine
// multiplies the derivatives into d(logprob)/dθ. It must normalise by counts over Batch.Whole. These
// methods are optional:
//
//	Pairs() bool // true: the loss compares experiences 2i and 2i+1 of an optimizer step, chosen
//	             // and rejected, so the trainer keeps both in one micro-batch
//	Probes(…), Prepare(…) // see Prober in package algorithm/loss
type Loss interface {
	Streams() Streams
	// Loss returns, for each experience of the batch, the derivatives of the loss by its streams, and metrics that add up over the
	// micro-batches of an optimizer step.
	Loss(b *Batch, now []TokenStats) (grads []TokenGrads, metrics Metrics, err error)
}

// Advantage writes Experience.Advantages (and Returns) of groups.
type Advantage interface {
	Advantages(groups []Group) (kept []Group, metrics Metrics, err error)
	// Needs says where the function runs and what it reads.
	Needs() Needs
}

// OptimParams are the settings of one optimizer step. An optimizer reads those that it has.
type OptimParams struct {
	LR          float64
	Beta1       float64
	Beta2       float64
	Eps         float64
	WeightDecay float64 // decoupled (AdamW, Loshchilov & Hutter 2019) but in SGD
	ClipNorm    float64 // global gradient norm; ≤ 0 means no clipping
}

// Engine owns the weights that are trained, or computes with frozen ones. An engine may do more:
// [Publisher], and Cutter and Distiller in package trainer.
type Engine interface {
	// Forward returns the streams of every experience, without gradient.
	Forward(ctx context.Context, b *Batch, want Streams) ([]TokenStats, error)
	// Reference is Forward under the frozen reference weights.
	Reference(ctx context.Context, b *Batch) ([]TokenStats, error)
	// ForwardBackward adds the gradient of the loss over the batch to the gradient.
	ForwardBackward(ctx context.Context, b *Batch, loss Loss) (Metrics, error)
	// OptimStep applies the gradient and clears it. Metrics: grad_norm (before clipping), lr.
	OptimStep(ctx context.Context, p OptimParams) (Metrics, error)
	// SaveState writes what a resumed run needs for the same bits into dir: master weights, moments, counters, and what a
	// Publisher has offered.
	SaveState(ctx context.Context, dir string) error
	// LoadState reads what SaveState wrote. The engine's sampler, if it shares memory with the engine, then has the offered version.
	LoadState(ctx context.Context, dir string) error
	// SaveModel writes a model directory (or a PEFT adapter) that transformers loads.
	SaveModel(ctx context.Context, dir string) error
	Close() error
}

// Publisher is an Engine that keeps the weights of the last version that it offered while it trains newer ones. A run needs one
// where the trainer goes on before the sampler has taken a version, and where a checkpoint lies between two versions.
type Publisher interface {
	Engine
	// Offer makes the current weights a version, in place of the one offered before.
	Offer(ctx context.Context, version int64) error
	// Adopt gives the version offered last to the sampler that was opened beside the engine, and returns its number. It may be
	// called while another goroutine trains. Without such a sampler it only returns the number.
	Adopt(ctx context.Context) (version int64, err error)
	// SavePublished is SaveModel of the version offered last.
	SavePublished(ctx context.Context, dir string) error
}
