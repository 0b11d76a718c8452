package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/trinity-go/trinity"
)

// WeightSender is a Trainer whose processes give weights to the processes of servers, without files.
type WeightSender interface {
	Publisher
	// Device is where its processes hold the weights: "cuda" or "cpu".
	Device() string
	// OpenChannel prepares to send the offered version to one server. A channel that is open ends.
	OpenChannel(ctx context.Context, to ChannelSpec) (WeightChannel, error)
}

// ChannelSpec says how one server is reached.
type ChannelSpec struct {
	Version   int64  // that the server is to get; an error if a newer one has been offered since
	Transport string // gloo, nccl, or ipc for memory of GPUs that both sides see
	Group     string // name of the process group
	Peer      string // host of the server
	Ranks     int    // processes of the server
	Announced bool   // each of them tells the group's store when it is about to join
	DType     string // of the weights on their way, as PyTorch calls it
	Limit     int64  // bytes of a bucket, unless one tensor is larger
	// Timeout is the time that each wait for the server may take.
	Timeout time.Duration
}

// WeightChannel sends the weights of one version to one server. The server must do its part of Join and
// of each Send at the same time.
type WeightChannel interface {
	// Buckets lists the tensors as checkpoints name them, in the order in which they are sent.
	Buckets() [][]TensorInfo
	// Address returns where the store of the group listens; "" without a group.
	Address() (host string, port int)
	// Join waits until all processes of the server have joined.
	Join(ctx context.Context) error
	// Send sends a bucket. With the transport ipc it returns handles by which the server reads it, and the
	// bucket stays until the next call.
	Send(ctx context.Context, bucket int) (handles json.RawMessage, err error)
	Close(ctx context.Context) error
}

// TensorInfo is a tensor of a model. In JSON it is [name, type, shape].
type TensorInfo struct {
	Name  string
	DType string // as PyTorch calls it, such as bfloat16
	Shape []int
}

// MarshalJSON implements json.Marshaler.
func (t TensorInfo) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{t.Name, t.DType, t.Shape})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *TensorInfo) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&t.Name, &t.DType, &t.Shape})
}

// WeightReceiver is a Sampler whose servers take weights from a WeightSender.
type WeightReceiver interface {
	trinity.Sampler
	// Receives returns an error if a server cannot take weights from the sender.
	Receives(ctx context.Context, from WeightSender) error
	// ReceiveWeights brings the version that the sender has offered into use. A server that restarts gets
	// it again, until the next call.
	ReceiveWeights(ctx context.Context, from WeightSender, version int64) error
}
