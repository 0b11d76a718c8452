package experience

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/trinity-go/trinity"
)

// Routes is the form of [trinity.Experience.Experts] under a model.
type Routes struct {
	Layers   int // with experts
	PerToken int // experts of a token in a layer
	Experts  int // of a layer
}

// Number returns the bytes of one expert's number.
func (r Routes) Number() int {
	if r.Experts > 1<<8 {
		return 2
	}
	return 1
}

// Token returns the bytes of one token.
func (r Routes) Token() int { return r.Layers * r.PerToken * r.Number() }

// Append appends the number of an expert.
func (r Routes) Append(dst []byte, expert int32) []byte {
	if r.Number() == 2 {
		return binary.LittleEndian.AppendUint16(dst, uint16(expert))
	}
	return append(dst, byte(expert))
}

// At returns number i of experts.
func (r Routes) At(experts []byte, i int) int32 {
	if r.Number() == 2 {
		return int32(binary.LittleEndian.Uint16(experts[2*i:]))
	}
	return int32(experts[i])
}

// Check returns an error unless each of the tokens but the last has PerToken different experts of the model in each layer.
func (r Routes) Check(experts []byte, tokens int) error {
	if len(experts) == 0 {
		return errors.New("nobody has recorded which experts its tokens had")
	}
	if want := (tokens - 1) * r.Token(); len(experts) != want {
		return fmt.Errorf("its experts take %d bytes; %d tokens but the last, %d layers with experts and %d experts a token take %d",
			len(experts), tokens, r.Layers, r.PerToken, want)
	}
	for at := 0; at < len(experts)/r.Number(); at += r.PerToken {
		for i := range r.PerToken {
			expert, place := r.At(experts, at+i), at/r.PerToken
			if int(expert) >= r.Experts {
				return fmt.Errorf("token %d has expert %d in layer %d of those with experts; the model has experts 0 to %d",
					place/r.Layers, expert, place%r.Layers, r.Experts-1)
			}
			for j := range i {
				if r.At(experts, at+j) == expert {
					return fmt.Errorf("token %d has expert %d twice in layer %d of those with experts", place/r.Layers, expert,
						place%r.Layers)
				}
			}
		}
	}
	return nil
}

// RequireExperts returns an error if training learns a token of an experience without experts.
func RequireExperts(e *trinity.Experience) error {
	if len(e.Experts) > 0 || e.TrainedTokens() == 0 {
		return nil
	}
	return fmt.Errorf("experience %s has no experts, and algorithm.enable_router_replay trains with those that its tokens had: a run "+
		"records them only with this key, in buffers, .parquet files and databases but never in JSON lines; read such data, or set the key "+
		"to false", e.ID)
}

// most bounds the experts of one experience, bytes.
const most = 1 << 30

var (
	packer   = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)) })
	unpacker = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(most))
	})
)

func packExperts(experts []byte) []byte {
	z, err := packer()
	if err != nil {
		panic(err) // its options are constants
	}
	return z.EncodeAll(experts, nil)
}

// unpackExperts returns the experts of an experience of so many tokens.
func unpackExperts(packed []byte, tokens int) ([]byte, error) {
	z, err := unpacker()
	if err != nil {
		panic(err) // its options are constants
	}
	experts, err := z.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("experts: %w", err)
	}
	if tokens < 2 || len(experts) == 0 || len(experts)%(tokens-1) != 0 {
		return nil, fmt.Errorf("experts of %d bytes for %d tokens", len(experts), tokens)
	}
	return experts, nil
}
