package trinity

import "context"

// Batch is what an engine computes at once: one micro-batch of an optimizer step.
type Batch struct {
	Step        int64         // trainer step, from 1
	Experiences []*Experience // of this micro-batch
	Whole       []*Experience // of the optimizer step; losses normalise over it, so no cut changes the gradient
}

// Streams name the per-token values that a loss reads besides the log-probabilities.
type Streams struct {
	Entropy       bool // entropy of the next-token distribution
	Value         bool // the critic's value; an engine with a value head has no other stream
	Score         bool // the score of the whole sequence; an engine with a score head has no other stream
	Discriminator bool // mean entropy discriminator; in forward passes only, for it has no gradient
	// Divergence is the distance of the next-token distribution from a teacher's; Kind "" for none.
	Divergence Divergence
}

// Divergence names a distance between two distributions over the whole vocabulary: p of a teacher
// and q of the trained model, both at the experience's temperature.
type Divergence struct {
	Kind string  // ForwardKL, ReverseKL or JSD
	Beta float64 // for JSD, in (0, 1): the weight of p in the mixture m = Beta·p + (1−Beta)·q
}

// The kinds of divergence.
const (
	ForwardKL = "forward_kl" // KL(p‖q) = Σ p·ln(p/q)
	ReverseKL = "reverse_kl" // KL(q‖p) = Σ q·ln(q/p)
	JSD       = "jsd"        // Beta·KL(p‖m) + (1−Beta)·KL(q‖m), the generalised Jensen–Shannon divergence
)

// TokenStats are the per-token values of one sequence under the current weights, at the
// experience's temperature. Index t belongs to Tokens[t]; entries are 0 where the mask is false:
//
//   - Logprob[t] = log p(Tokens[t] | Tokens[<t]).
//   - Entropy[t] is the entropy of the distribution that Tokens[t] was drawn from.
//   - Value[t] = V(Tokens[<t]), from the same hidden state as Logprob[t]. So in GAE (Schulman et
//     al. 2016) δ_t = r_t + γ·Value[t'] − Value[t], where t' is the next trained token; there is no
//     value after the last.
//   - Discriminator[t] = Σ_v p_v²·(H + ln p_v) over the vocabulary, with H = Entropy[t]. It is the
//     mean of the entropy discriminator p_v·(H + ln p_v), the rate at which a higher logit of v
//     lowers the entropy (Wang et al. 2026, "On the entropy dynamics in reinforcement
//     fine-tuning").
//   - Divergence[t] is the divergence of the distribution that Tokens[t] was drawn from, and the
//     teacher's.
//
// Score is no stream but one number: that of the whole sequence, whatever the mask, as a reward model
// gives it.
//
// An engine gives values if it has a value head, scores if it has a score head, else all the others.
type TokenStats struct {
	Logprob       []float32 // [T] nats; nil from a value head
	Entropy       []float32 // [T] nats; nil unless asked for
	Value         []float32 // [T]; nil unless asked for
	Score         float32   // 0 unless asked for
	Discriminator []float32 // [T] nats; nil unless asked for
	Divergence    []float32 // [T] nats; nil unless asked for
}

// TokenGrads are the derivatives of the loss by each entry of TokenStats. A nil slice means zero.
type TokenGrads struct {
	Logprob    []float32 // [T]
	Entropy    []float32 // [T]
	Value      []float32 // [T]
	Score      float32
	Divergence []float32 // [T]
}

// Loss maps per-token streams to a scalar and its derivatives. It knows nothing of models: an
// engine multiplies the derivatives into d(logprob)/dθ. It must normalise by counts over
// Batch.Whole. These methods are optional:
//
//	Pairs() bool // true: the loss compares experiences 2i and 2i+1 of an optimizer step, chosen
//	             // and rejected, so the trainer keeps both in one micro-batch
//	Probes(…), Prepare(…) // see Prober in package algorithm/loss
//	Open(Host) error // see Advantage
type Loss interface {
	Streams() Streams
	// Loss returns, for each experience of the batch, the derivatives of the loss by its streams. The
	// metrics add up over the micro-batches of an optimizer step.
	Loss(b *Batch, now []TokenStats) (grads []TokenGrads, metrics Metrics, err error)
}

// Advantage writes Experience.Advantages (and Returns) of groups. A method Open(Host) error is
// optional: the run calls it before the first batch. What it opens at the host ends with the stage.
// So are State() (json.RawMessage, error) and Restore(json.RawMessage) error of one that keeps
// something over steps: checkpoints have its state, if it is not nil, and a resumed run restores it.
type Advantage interface {
	Advantages(ctx context.Context, groups []Group) (kept []Group, metrics Metrics, err error)
	// Needs says where the function runs and what it reads.
	Needs() Needs
}

// OptimParams are the settings of one optimizer step. Each optimizer reads the ones it has.
type OptimParams struct {
	LR          float64
	Beta1       float64
	Beta2       float64
	Eps         float64
	WeightDecay float64 // decoupled (AdamW, Loshchilov & Hutter 2019), except in SGD
	ClipNorm    float64 // global gradient norm; ≤ 0 means no clipping
}
