package trinity

import (
	"fmt"
	"slices"
	"strconv"
)

// ExperienceID says where an experience comes from. Its String is unique within a run.
type ExperienceID struct {
	Step int64  `json:"step"` // explorer step
	Task string `json:"task"` // Task.ID
	Run  int    `json:"run"`  // rollout within the group, 0 … G−1
	Turn int    `json:"turn"` // model call within the rollout
}

func (id ExperienceID) String() string {
	return strconv.FormatInt(id.Step, 10) + "/" + id.Task + "/" + strconv.Itoa(id.Run) + "/" + strconv.Itoa(id.Turn)
}

// Follows reports whether id is a later call of the same rollout as before.
func (id ExperienceID) Follows(before ExperienceID) bool {
	return before.Step == id.Step && before.Task == id.Task && before.Run == id.Run && before.Turn < id.Turn
}

// Truncation says why a sequence is incomplete.
type Truncation string

const (
	NotTruncated      Truncation = ""
	PromptTruncated   Truncation = "prompt_truncated"   // the prompt was longer than max_prompt_tokens
	ResponseTruncated Truncation = "response_truncated" // the reply hit max_response_tokens or the model's length
	TokensTruncated   Truncation = "tokens_truncated"   // the rollout has sampled explorer.max_rollout_tokens
	TurnsTruncated    Truncation = "turns_truncated"    // the episode hit the workflow's or the environment's limit of turns
)

// Experience is one token sequence with everything recorded about it. All per-token slices have
// length T = len(Tokens); index t belongs to Tokens[t].
type Experience struct {
	ID         ExperienceID `json:"id"`
	Tokens     []int32      `json:"tokens"`               // [T] prompt, sampled and environment tokens, in order, ids as sampled
	Mask       []bool       `json:"mask"`                 // [T] true for the tokens that the policy sampled and training learns from
	Logprobs   []float32    `json:"logprobs,omitempty"`   // [T] nats, of the sampling policy, at Temperature; 0 where !Mask; nil if unknown
	Advantages []float32    `json:"advantages,omitempty"` // [T] from an Advantage; nil if none has scored the experience
	Returns    []float32    `json:"returns,omitempty"`    // [T] from an Advantage with a value function

	RefLogprobs     []float32 `json:"ref_logprobs,omitempty"`     // [T] nats, under the frozen reference; nil if unused
	TeacherLogprobs []float32 `json:"teacher_logprobs,omitempty"` // [T] nats, under a teacher; nil if unused
	Teacher         string    `json:"teacher,omitempty"`          // the teacher's name; "" is the run's first teacher

	StepStreams `json:"-"`
	Origin

	PromptLen      int                `json:"prompt_len"`                // tokens before the first that the policy may have written
	EnvironmentLen int                `json:"environment_len,omitempty"` // of the tokens after the prompt, those that the policy did not write
	Temperature    float32            `json:"temperature"`               // the sampling temperature that Logprobs and training use; 0 means 1
	Reward         Reward             `json:"reward"`                    // a value with its parts, or invalid with a reason
	Versions       [2]int64           `json:"versions"`                  // oldest and newest policy version in it; see Completion
	Truncated      Truncation         `json:"truncated,omitempty"`
	Metrics        map[string]float64 `json:"metrics,omitempty"`  // logged as rollout/<name>
	Info           map[string]any     `json:"info,omitempty"`     // anything else from a workflow or an operator
	Prompt         string             `json:"prompt,omitempty"`   // text shown to people
	Response       string             `json:"response,omitempty"` // text that was scored
	Truth          string             `json:"truth,omitempty"`    // the task's reference answer, shown to people; a long one is cut

	Images []Image `json:"images,omitempty"` // that the model sees, in the order of their tokens

	Chosen   bool `json:"chosen,omitempty"`    // preference data: the preferred answer of a pair
	IsExpert bool `json:"is_expert,omitempty"` // a demonstration that a sample strategy mixed in, not a rollout
}

// Image is a canonical image in the tokens of an experience: Tokens[At:At+Len] are its placeholder.
type Image struct {
	Digest string `json:"digest"` // sha256:HEX, of the file that the run has kept
	At     int    `json:"at"`
	Len    int    `json:"len"`
	Grid   [3]int `json:"grid"` // frames, rows and columns of patches
}

// MarginInfo is the key of Experience.Info by how much a chosen answer is better than the rejected
// one, a float64.
const MarginInfo = "margin"

// StepStreams are what the trainer computes of an experience before the update. They live for one
// train step.
type StepStreams struct {
	// OldLogprobs are the log-probabilities under the trained policy. If the trainer does not compute
	// them, losses use Logprobs. PolicyWeights are factors of each token's policy loss.
	OldLogprobs   []float32 // [T] nats
	PolicyWeights []float32 // [T]; nil means 1

	// Values, Entropies and Discriminators belong to the state before each token: the critic's value,
	// the policy's entropy, and the mean entropy discriminator (see TokenStats).
	Values         []float32 // [T]; 0 where !Mask
	Entropies      []float32 // [T] nats; 0 where !Mask
	Discriminators []float32 // [T] nats; 0 where !Mask

	// Targets are the tokens whose log-probabilities an engine gives in place of those of Tokens; nil is Tokens. [T] are
	// others than those that follow, and [T·K] are K of each place, one place after another. TokenStats.Logprob and
	// TokenGrads.Logprob have as many numbers.
	Targets []int32
}

// Origin says who wrote an experience, with which experts, and which part of a rollout it is.
type Origin struct {
	// Source is "" for the policy, and "external:" with the name of a model behind an API of text. Such a model gives
	// neither Logprobs nor Versions, which are -1.
	Source string `json:"source,omitempty"`
	// Part is "" for a reply to the task, and names another part of the rollout, such as "judge" for a judgement of the
	// group's replies. Advantage functions compare only experiences of one part.
	Part string `json:"part,omitempty"`
	// Experts [T-1, layers with experts, k] are those that computed each token but the last, which computes nothing; one
	// byte each, or two (little-endian) if a layer has more than 256. nil if nobody has recorded them. They are not in JSON.
	Experts []byte `json:"-"`
}

// Group holds the experiences of one task. Groups move from explorer to trainer.
type Group []*Experience

// TrainedTokens returns the number of tokens that training learns from.
func (e *Experience) TrainedTokens() int {
	n := 0
	for _, m := range e.Mask {
		if m {
			n++
		}
	}
	return n
}

// ResponseLen returns the number of tokens after the prompt that the policy wrote.
func (e *Experience) ResponseLen() int { return len(e.Tokens) - e.PromptLen - e.EnvironmentLen }

// LogprobsBefore returns the log-probabilities [T], nats, in the denominator of ratios: OldLogprobs
// if the trainer has computed them, else Logprobs.
func (e *Experience) LogprobsBefore() []float32 {
	if e.OldLogprobs != nil {
		return e.OldLogprobs
	}
	return e.Logprobs
}

// Check returns an error if a per-token slice has another length than Tokens, if the mask has the
// first token, which has no predecessor and so no probability, or if the images have no place of
// their own among the tokens that nobody learns.
func (e *Experience) Check() error {
	n := len(e.Tokens)
	if n == 0 {
		return fmt.Errorf("experience %s has no tokens", e.ID)
	}
	if len(e.Mask) != n {
		return fmt.Errorf("experience %s: mask has length %d, want %d (one per token)", e.ID, len(e.Mask), n)
	}
	if e.Targets != nil && (len(e.Targets) == 0 || len(e.Targets)%n != 0) {
		return fmt.Errorf("experience %s: targets has length %d, want %d or a multiple (as many for each token)", e.ID, len(e.Targets), n)
	}
	if e.Mask[0] {
		return fmt.Errorf("experience %s: mask[0] is set, but the first token has no predecessor to predict it", e.ID)
	}
	for _, s := range []struct {
		name string
		v    []float32
	}{
		{"logprobs", e.Logprobs}, {"advantages", e.Advantages}, {"returns", e.Returns},
		{"ref_logprobs", e.RefLogprobs}, {"teacher_logprobs", e.TeacherLogprobs},
	} {
		if s.v != nil && len(s.v) != n {
			return fmt.Errorf("experience %s: %s has length %d, want %d (one per token)", e.ID, s.name, len(s.v), n)
		}
	}
	return e.checkImages()
}

func (e *Experience) checkImages() error {
	end := 0 // of the image before
	for i, image := range e.Images {
		switch n := len(e.Tokens); {
		case !isDigest(image.Digest):
			return fmt.Errorf("experience %s: images[%d] has the digest %q, want sha256: and 64 hexadecimal digits", e.ID, i, image.Digest)
		case image.At < end || image.Len < 1 || image.At > n || image.Len > n-image.At:
			return fmt.Errorf("experience %s: images[%d] is %d tokens at %d, want a place in %d to %d", e.ID, i, image.Len, image.At, end, n)
		case slices.Contains(e.Mask[image.At:image.At+image.Len], true):
			return fmt.Errorf("experience %s: images[%d], %d tokens at %d, has a token in the mask, but nobody samples an image",
				e.ID, i, image.Len, image.At)
		case min(image.Grid[0], image.Grid[1], image.Grid[2]) < 1:
			return fmt.Errorf("experience %s: images[%d] has a grid of %v patches", e.ID, i, image.Grid)
		}
		end = image.At + image.Len
	}
	return nil
}
