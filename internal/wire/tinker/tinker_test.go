package tinker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// exchange is a call of the official client, and the answer of a server, as recorded.
type exchange struct {
	N        int
	Request  recorded
	Response recorded
}

type recorded struct {
	Path, Method string
	JSON         json.RawMessage `json:"body_json"`
	Base64       string          `json:"body_base64"`
	Decoded      json.RawMessage `json:"body_decoded"`
}

func (r recorded) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(r.Base64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recordings returns the recorded exchanges by their file.
func recordings(t *testing.T) map[string][]exchange {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "reference", "tinker-wire", "*.json"))
	if len(files) == 0 {
		trinitytest.Missing(t, "there is no ../shared/reference/tinker-wire")
	}
	all := map[string][]exchange{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r struct{ Exchanges []exchange }
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = r.Exchanges
	}
	return all
}

// Every message that the official client and a server have exchanged is read, and written again to the same bytes.
func TestRecordedMessagesKeepTheirBytes(t *testing.T) {
	requests, outputs, samples := 0, 0, 0
	for file, exchanges := range recordings(t) {
		for _, x := range exchanges {
			if x.Request.Base64 != "" {
				requests++
				r, err := DecodeForwardBackward(x.Request.bytes(t))
				if err != nil {
					t.Fatalf("%s, %d: %v", file, x.N, err)
				}
				if got := r.Encode(); !bytes.Equal(got, x.Request.bytes(t)) {
					t.Errorf("%s, %d: %x, want %x", file, x.N, got, x.Request.bytes(t))
				}
			}
			if x.Response.Base64 == "" {
				continue
			}
			message := x.Response.bytes(t)
			var got []byte
			if bytes.Contains(x.Response.Decoded, []byte(`"loss_fn_outputs"`)) {
				outputs++
				o, err := DecodeOutput(message)
				if err != nil {
					t.Fatalf("%s, %d: %v", file, x.N, err)
				}
				got = o.Encode()
			} else {
				samples++
				s, err := DecodeSamples(message)
				if err != nil {
					t.Fatalf("%s, %d: %v", file, x.N, err)
				}
				got = s.Encode()
			}
			if !bytes.Equal(got, message) {
				t.Errorf("%s, %d: %x, want %x", file, x.N, got, message)
			}
		}
	}
	if requests < 18 || outputs < 16 || samples < 9 {
		t.Errorf("%d requests, %d outputs, %d samples", requests, outputs, samples)
	}
}

// The numbers of the recorded messages are those that the official classes have read from them.
func TestRecordedNumbers(t *testing.T) {
	all := recordings(t)
	of := func(file string, n int) exchange {
		for _, x := range all[file] {
			if x.N == n {
				return x
			}
		}
		t.Fatalf("%s has no exchange %d", file, n)
		return exchange{}
	}
	first, x := of("01_training_loop", 7), of("02_all_calls", 15)
	r, err := DecodeForwardBackward(first.Request.bytes(t))
	if err != nil || r.SeqID != 1 || r.Loss != "cross_entropy" || len(r.Data) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	ids, err := r.Data[0].Tokens()
	if want := []int32{19556, 905, 28, 451, 314, 253}; err != nil || !reflect.DeepEqual(ids, want) {
		t.Errorf("tokens %v, %v; want %v", ids, err, want)
	}
	// Sparse tensors [3, 16].
	r, err = DecodeForwardBackward(x.Request.bytes(t))
	if err != nil || len(r.Data) != 1 || len(r.Data[0].Inputs) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, named := range r.Data[0].Inputs {
		want := make([]float32, 48)
		copy(want[0:], []float32{5})
		copy(want[17:], []float32{6})
		copy(want[34:], []float32{7})
		if named.Name == "weights" {
			want[0], want[17], want[34] = 1, 1, 1
		}
		k, err := named.Tensor.Columns()
		values, err2 := named.Tensor.Floats()
		if err != nil || err2 != nil || k != 16 || !reflect.DeepEqual(values, want) {
			t.Errorf("%s: %d columns, %v, %v, %v", named.Name, k, values, err, err2)
		}
	}
	o, err := DecodeOutput(of("01_training_loop", 9).Response.bytes(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := o.Floats("logprobs")
	if want := []float32{-2.201030969619751, -2.170103073120117, -0.623711347579956, -1.675257682800293, -3.1597938537597656,
		-3.128865957260132}; err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	s, err := DecodeSamples(of("02_all_calls", 37).Response.bytes(t))
	if err != nil || len(s.PromptLogprobs) != 4 || !math.IsNaN(float64(s.PromptLogprobs[0])) || s.PromptLogprobs[3] != -1.2731958627700806 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A tensor that does not hold what it says is an error, and never a wrong number or a large allocation.
func TestTensorsThatLie(t *testing.T) {
	one := func(v ...int64) []byte { // int64
		n := make([]int32, len(v))
		for i := range v {
			n[i] = int32(v[i])
		}
		return NewTokens(n).Dense
	}
	sparse := func(shape []int64, values, rows, columns []byte) Tensor {
		return Tensor{DType: Int64, Shape: shape, CSR: &CSR{values, rows, columns}}
	}
	large := make([]byte, 8)
	large[7] = 0x7f
	for name, c := range map[string]struct {
		t    Tensor
		want string
	}{
		"no type":       {Tensor{Dense: one(1)}, "its elements are of type 0: want float32 or int64"},
		"half a number": {Tensor{DType: Int64, Dense: make([]byte, 12)}, "it has 12 bytes, and an element has 8"},
		"another shape": {Tensor{DType: Int64, Shape: []int64{3}, Dense: one(1, 2)}, "its shape is [3], and it has 2 elements"},
		"a negative":    {Tensor{DType: Int64, Shape: []int64{-1}, Dense: one(1)}, "its shape is [-1]: want at most 16777216 elements"},
		"huge":          {sparse([]int64{1 << 26, 1 << 26}, nil, nil, nil), "its shape is [67108864 67108864]: want at most 16777216 elements"},
		"overflows": {Tensor{DType: Int64, Shape: []int64{1 << 62, 4}, Dense: nil},
			"its shape is [4611686018427387904 4]: want at most 16777216 elements"},
		"a sparse row":  {sparse([]int64{2}, nil, nil, nil), "it is sparse, and its shape is [2]: want two numbers"},
		"a large token": {Tensor{DType: Int64, Dense: large}, "element 0: 9151314442816847872 is no token"},
		"too few rows": {sparse([]int64{2, 2}, one(7), one(0, 1), one(0)),
			"it is sparse, with 2 rows, 8 bytes of values, 8 of columns and 16 of rows: they do not fit together"},
		"no such column":  {sparse([]int64{1, 2}, one(7), one(0, 1), one(2)), "its sparse row 0 has column 2, and there are 2"},
		"rows fall":       {sparse([]int64{3, 2}, one(7), one(0, 2, 0, 1), one(0)), "its sparse row 0 goes from 0 to 2"},
		"rows begin late": {sparse([]int64{1, 2}, one(7), one(1, 1), one(0)), "its sparse rows begin at 1 and end at 1: want 0 and 1"},
	} {
		if got, err := c.t.Tokens(); err == nil || err.Error() != c.want && c.t.DType != 0 {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
		if got, err := c.t.Floats(); name != "a large token" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestPaths(t *testing.T) {
	for text, ok := range map[string]bool{
		"tinker://a:train:0/weights/ck-1": true, "tinker://a/sampler_weights/x.1": true, "tinker://a/external_weights/x": true,
		"": false, "tinker://": false, "tinker://a/weights": false, "tinker://a/weights/x/y": false, "tinker://a/other/x": false,
		"tinker:///weights/x": false, "tinker://a/weights/..": false, "tinker://a/weights/.x": false, "tinker://a/weights/x y": false,
		"http://a/weights/x": false, "tinker://a/weights/" + strings.Repeat("x", 129): false,
	} {
		p, err := ParsePath(text)
		if (err == nil) != ok || ok && p.String() != text {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

// No bytes make a decoder panic, and what it accepts it writes to bytes that it reads alike.
func FuzzMessages(f *testing.F) {
	f.Add((&ForwardBackward{ModelID: "a", SeqID: 1, Loss: "ppo", Data: []Datum{{Input: []Chunk{TextChunk([]int32{1, 2})},
		Inputs: []Named{{"target_tokens", NewTokens([]int32{2, 3})}, {"weights", NewFloats([]float32{1, 0})}}}}}).Encode())
	f.Add(NewOutput("logprobs", [][]float32{{-1, -2}, {-3}}, []int64{0, 1}, []Metric{{"loss:sum", 3}}).Encode())
	f.Add((&Samples{Sequences: []Sequence{{Tokens: []int32{1}, Logprobs: []float32{-1},
		Top: &Top{[]int32{1, 2}, []float32{-1, -2}, 2, 1}}}}).Encode())
	f.Fuzz(func(t *testing.T, message []byte) {
		if r, err := DecodeForwardBackward(message); err == nil {
			for i := range r.Data {
				_, _ = r.Data[i].Tokens()
				for _, n := range r.Data[i].Inputs {
					if size, err := n.Tensor.size(8); err == nil && size < 1<<16 {
						_, _ = n.Tensor.Floats()
						_, _ = n.Tensor.Tokens()
					}
				}
			}
			again, err := DecodeForwardBackward(r.Encode())
			if err != nil || !bytes.Equal(again.Encode(), r.Encode()) {
				t.Errorf("%x: %v", message, err)
			}
		}
		if o, err := DecodeOutput(message); err == nil {
			_, _ = o.Floats("logprobs")
		}
		_, _ = DecodeSamples(message)
	})
}

func TestDecodeReadsOneValue(t *testing.T) {
	for body, isOne := range map[string]bool{`{"a":1}`: true, "{\"a\":1}\n": true, `{"a":1}}`: false, `{"a":1}]`: false, `{"a":1} {}`: false} {
		if err := Decode([]byte(body), &map[string]any{}); (err == nil) != isOne {
			t.Errorf("%s: %v", body, err)
		}
	}
}
