package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"testing"
)

// The real model, read from GGUF, has exactly the weights that transformers reads from the same
// file.
func TestSmolLM2EqualsTransformers(t *testing.T) {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the SmolLM2-135M-Instruct GGUF file")
	}
	m := open(t, path)
	text, err := os.ReadFile("testdata/smollm2.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Parameters int64
		SHA256     map[string]string
		Shapes     map[string][]int
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if n := m.Config.Parameters(); n != want.Parameters || n != 134_515_008 {
		t.Errorf("%d parameters, want %d", n, want.Parameters)
	}
	if len(m.Names()) != len(want.Shapes) {
		t.Errorf("%d tensors, want %d", len(m.Names()), len(want.Shapes))
	}
	for _, name := range m.Names() {
		v := values(t, m, name)
		if tensor, _ := m.Tensor(name); !reflect.DeepEqual(tensor.Shape, want.Shapes[name]) {
			t.Errorf("%s has shape %v, want %v", name, tensor.Shape, want.Shapes[name])
		}
		if sum, recorded := want.SHA256[name]; recorded && checksum(v) != sum {
			t.Errorf("%s differs from transformers'", name)
		}
	}
	checkSmolLM2Metadata(t, m)
}

func checkSmolLM2Metadata(t *testing.T, m *Model) {
	c := m.Config
	if c.HiddenSize != 576 || c.NumHeads != 9 || c.NumKVHeads != 3 || c.HeadDim != 64 || c.RopeTheta != 100000 || c.RMSNormEps != 1e-5 ||
		!c.TieEmbeddings || c.MaxPositions != 8192 || !reflect.DeepEqual(c.EOS, []int32{2}) {
		t.Errorf("config %+v", c)
	}
	v := m.Vocabulary()
	if v.Model != "gpt2" || v.Pre != "smollm" || len(v.Tokens) != 49152 || len(v.Merges) != 48900 || len(v.Types) != 49152 ||
		v.Scores != nil ||
		v.BOS != 1 || v.EOS != 2 || v.UNK != 0 || v.PAD != 2 || v.AddEOS != nil || *v.AddBOS || *v.AddSpacePrefix || len(v.ChatTemplate) < 100 {
		t.Errorf("vocabulary %q %q, %d tokens, ids %d %d %d %d", v.Model, v.Pre, len(v.Tokens), v.BOS, v.EOS, v.UNK, v.PAD)
	}
}

// checksum is of the little-endian float32 bytes.
func checksum(v []float32) string {
	h := sha256.New()
	buffer := make([]byte, 0, 4*len(v))
	for _, f := range v {
		buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(f))
	}
	h.Write(buffer)
	return hex.EncodeToString(h.Sum(nil))
}
