package tinker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// A small body that is large in memory is refused, and its number is used: others go on.
func TestSmallBodiesThatAreLargeInMemory(t *testing.T) {
	c := serve(t, nil)
	id := c.model(0)
	refused := func(seq int32, message []byte, want string) {
		t.Helper()
		status, out := c.post("forward_backward", "application/x-protobuf", message)
		reply := object{}
		if err := json.Unmarshal(out, &reply); err != nil || status != http.StatusOK {
			t.Fatalf("%d, %s", status, out)
		}
		if _, failed := c.result(reply); !strings.Contains(failed, want) {
			t.Errorf("seq_id %d: %q; want %q", seq, failed, want)
		}
	}
	head := (&tinker.ForwardBackward{ModelID: id, SeqID: 1, Loss: "cross_entropy"}).Encode()
	refused(1, append(head, bytes.Repeat([]byte{3<<3 | 2, 0}, 1<<20+1)...), "more than 1048576 data, chunks and tensors")

	zeros := func(rows, columns int64) tinker.Tensor { // a matrix of zeros, in a few bytes
		return tinker.Tensor{DType: tinker.Int64, Shape: []int64{rows, columns}, CSR: &tinker.CSR{Rows: make([]byte, 8*(rows+1))}}
	}
	sparse := func(seq int32, n int, tensor func() tinker.Tensor) []byte {
		r := &tinker.ForwardBackward{ModelID: id, SeqID: seq, Loss: "cross_entropy"}
		for range n {
			weights := tensor()
			weights.DType = tinker.Float32
			r.Data = append(r.Data, tinker.Datum{Input: []tinker.Chunk{tinker.TextChunk(first[:4])}, Inputs: []tinker.Named{
				{Name: "target_tokens", Tensor: tensor()}, {Name: "weights", Tensor: weights},
			}})
		}
		return r.Encode()
	}
	refused(2, sparse(2, 1, func() tinker.Tensor { return zeros(4, 1<<20) }), "want 4 tokens, and 1024 numbers a token at most")
	refused(3, sparse(3, 9000, func() tinker.Tensor { return zeros(4, maxTargets) }), "have more than 67108864 elements")
	c.result(c.step(id, 4)) // drops what is spoilt
	c.output(c.send(request(id, 5, "cross_entropy", first)))
	c.must(c.step(id, 6))

	long := object{"user_metadata": object{"x": strings.Repeat("x", maxAbout)}}
	if status, out := c.do("POST", "create_session", long); status != 400 {
		t.Errorf("long metadata: %d, %v", status, out)
	}
	large := make([]byte, maxJSON+1)
	if status, _ := c.post("create_session", "application/json", large); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", status)
	}
	bomb, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := c.post("asample", "application/json", bomb.EncodeAll(large, nil), "Content-Encoding", "zstd"); status != 400 {
		t.Errorf("a large body in zstd: %d", status)
	}
}

// A key has so many sessions, and sampling sessions, at once.
func TestSessionsAreBounded(t *testing.T) {
	c := serve(t, nil)
	c.model(0)
	for n := range maxSessions {
		c.server.sessions[fmt.Sprint(n)] = &session{id: fmt.Sprint(n), seen: time.Now(), ended: make(chan struct{})}
	}
	if status, out := c.do("POST", "create_session", object{}); status != http.StatusForbidden {
		t.Errorf("%d, %v", status, out)
	}
	delete(c.server.sessions, "0")
	delete(c.server.sessions, "1")
	c.call("create_session", object{})
	for n := range maxSamplers {
		c.server.samplers[fmt.Sprint(n)] = &sampler{}
	}
	in := object{"session_id": c.session, "sampling_session_seq_id": 0, "base_model": "tiny"}
	if status, out := c.do("POST", "create_sampling_session", in); status != http.StatusForbidden {
		t.Errorf("%d, %v", status, out)
	}
}
