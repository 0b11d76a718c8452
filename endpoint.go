package trinity

import "context"

// Endpoint is an address at which a program in any language calls the model of one rollout, over the
// OpenAI API. Its calls are recorded, id by id. It ends with the context of [Host.Serve] at the
// latest.
type Endpoint interface {
	// URL returns the base URL, which ends in /v1. It holds the key, so whoever has it has the endpoint.
	URL() string
	// Key returns the API key of the endpoint, for clients that cannot take a URL of their own.
	Key() string
	// Close ends the endpoint: calls in flight are cancelled and later ones are refused. It returns
	// what was recorded. The error is that of the engine.
	Close() (*Recording, error)
}

// EndpointOptions say how an endpoint answers.
type EndpointOptions struct {
	Steps    bool // each call becomes an experience of its own
	Sampling Sampling
	MaxCalls int // further calls are refused; 0 is no limit
	// ToolsAreOptional answers a request that demands a call of a tool as one that leaves the choice to the
	// policy. Else it is refused: no sampler promises a call and keeps the policy's log-probabilities.
	ToolsAreOptional bool
	// Models are the models by the names that programs ask for: patterns of [path.Match], in which *
	// also matches slashes. The longest pattern that matches counts. nil is the rollout's own model,
	// and without any pattern every name is. What other models answer is not recorded.
	Models map[string]Asker
	// Score is the task's reward function, which a program asks about replies; nil if there is none.
	Score func(ctx context.Context, in RewardInput) (Reward, error)
	// Called is called when a call of a model begins, and Committed when the program commits: nothing is
	// added to the rollout after that. They must not block, and may be nil.
	Called, Committed func()
}

// Sampling says whose temperature and other sampling parameters count.
type Sampling string

// The values of Sampling.
const (
	SamplingOfTaskset Sampling = "taskset" // those of the taskset; what a request says about them is ignored
	SamplingOfRequest Sampling = "request" // those of the request
)

// Recording is what a program did at an endpoint.
type Recording struct {
	// Experiences hold each token that the policy wrote and the program received once, unless the program
	// has said what is learnt, in an order that does not depend on which of parallel calls came first.
	// They have no rewards but those that the program gave to turns.
	Experiences []*Experience
	Last        *Experience   // that ends with the program's last call; nil if it received no reply
	Messages    []Message     // the chat of Last
	Calls       int           // of the model, also those that failed
	Reward      *Reward       // that the program gave the rollout; nil if it gave none
	Failure     *RolloutError // that the program reported; nil if it reported none
	CallFailure *RolloutError // of its newest failed call; nil if a later call succeeded
}
